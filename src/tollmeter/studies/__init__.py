# SPDX-License-Identifier: Apache-2.0
"""What a study published and what this run says of it: claims, attempts, programs, attribution, ways out."""
