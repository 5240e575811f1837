"""The oracle: judges a run by the world's truth alone (rules.md section 4). It never reads the controller's mind.

Written from the text of the invariants; the rules were written from the text of the rules.
"""

from sim.oracle.judge import Verdict, Violation, judge
from sim.oracle.live import live_state

__all__ = ["Verdict", "Violation", "judge", "live_state"]
