# SPDX-License-Identifier: Apache-2.0
"""`python -m tollmeter` is `toll`."""

import sys

from tollmeter.cli.main import main

sys.exit(main())
