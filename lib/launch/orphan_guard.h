// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "launch/rank_status_board.h"

namespace gantrain {

// Starts a process below this one that does nothing until this one dies, and then kills what is
// left of the run. Ranks die with their launcher by themselves, but not what they have started and
// let go, such as a daemon of a data loader, which a launcher that is killed cannot end any more.
// Such a process is known by the memory of `board`, which it has from its rank, or by a variable of
// the environment, if it runs another program. While this process lives, it ends the guard as any
// other process below it (kill_process_tree). To be called before the ranks are forked. Where no
// process can be started there is no guard. `afterwards` is called when all that was left is gone,
// in a process that has no files of this one (see survivor.h).
void start_orphan_guard(const RankStatusBoard& board, const std::function<void()>& afterwards = {});

}  // namespace gantrain
