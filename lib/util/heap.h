// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gantrain {

// From now on this process keeps what it frees, up to a gigabyte, where the C library can be told
// so (glibc). Tensors of some megabytes come and go in every iteration; as a rule each goes back to
// the kernel, and costs a page fault for every 4 kB when it comes again. The user's own settings
// (MALLOC_*, GLIBC_TUNABLES) win.
void keep_freed_memory();

}  // namespace gantrain
