// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gantrain {

// What the text of an exception says about a failure between ranks. The texts are those of c10d,
// NCCL, gloo, the TCP store and CUDA; what they look like stands in the table of
// test/util/failure_text_test.cpp.

// The lines that tell a person what happened, the most telling one first: without backtraces and
// without the advice that CUDA adds to each of its errors. Where NCCL says what its last error was,
// that comes first, then what NCCL calls it. There is at least one line.
std::vector<std::string> telling_lines(std::string_view text);

// The same in one line: the most telling line, and in brackets what NCCL calls the error.
std::string cause_line(std::string_view text);

// True if the text says that another rank is gone: "connection closed by peer", "remote process
// exited", a store that no longer answers.
bool tells_of_lost_peer(std::string_view text);

// True if the text says that this rank waited in a collective or at the store until its time was
// over. Another rank did not come.
bool tells_of_vain_wait(std::string_view text);

// True if the text comes from the threads that c10d has for NCCL, or from NCCL itself. The thread
// that watches over collectives throws what it finds, and the process dies of SIGABRT.
bool tells_of_nccl(std::string_view text);

}  // namespace gantrain
