# SPDX-License-Identifier: Apache-2.0
"""What Python finds behind the program's machine code: `torchrun build/gantrain ...` starts
`python build/gantrain ...`, which becomes the program."""

import os
import sys

os.execv(sys.argv[0], sys.argv)
