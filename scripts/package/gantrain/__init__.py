# SPDX-License-Identifier: Apache-2.0
"""The gantrain program as a Python package: `gantrain` or `python -m gantrain` starts it."""
