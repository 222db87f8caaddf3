// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace gantrain {

// To be called first in main(). From then on SIGINT and SIGTERM, and SIGUSR1 and SIGHUP if a
// training is asked for, end this process with one line on standard error and a documented exit
// code: 130 for SIGINT, for the others 75 if a training is asked for, else 128 and the signal's
// number. A signal that was ignored stays so. Whoever installs handlers of their own later, or
// blocks these signals as SignalGate does, replaces this. Processes forked from this one end
// without a line.
void end_on_early_signals(bool training);

// From now on the signals of end_on_early_signals() do nothing: the work is over, and only its last
// files are written.
void ignore_late_signals();

// The exit code is that of a run that was asked to stop, and can be resumed: no failure.
bool is_stop_code(int code);

// Says in one line that a stop came before the run could save, and what that means: "stopped by
// signal 2 (SIGINT) before the first iteration; nothing was lost". `iteration` is how far the
// training was.
std::string early_stop_text(int signal, int64_t iteration);

}  // namespace gantrain
