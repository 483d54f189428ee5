"""An asv plugin: what asv knows of its machine is read beside its configuration, not in the home of the user.

Many jobs share one home, and all of them would write that one file.
"""

from __future__ import annotations

import os

from asv.machine import MachineCollection

MachineCollection.get_machine_file_path = staticmethod(lambda: os.path.abspath("machine.json"))
