# SPDX-License-Identifier: GPL-2.0
"""(placeholder)"""


def shell(arguments):
    """Prompt."""
    return 1
