/* SPDX-License-Identifier: Apache-2.0 */
#define LDSO_ARCH "sparc"
#define TPOFF_K   0
