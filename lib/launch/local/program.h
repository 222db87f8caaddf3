// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "launch/local/rank.h"

namespace gantrain {

// A program of the user's that is every rank (`gantrain launch`). Of it nothing is known but its
// environment, what it prints, the error file that it may write, and how it ends.
struct Program {
  std::vector<std::string> words;      // the program and its arguments
  size_t local_rank_at = 0;            // the word that ends in "=" and gets the local rank; 0: none
  std::string role = "default";        // ROLE_NAME
  std::string run_id = {};             // TORCHELASTIC_RUN_ID, as node 0 has it
  int64_t max_restarts = 0;            // TORCHELASTIC_MAX_RESTARTS
  std::filesystem::path log_dir = {};  // "": no rank's output is written to files
  bool tee = false;                    // it is also shown
  std::filesystem::path scratch = {};  // where error files lie without log_dir

  // A rank's file of an attempt: LOG_DIR/RUN/ATTEMPT/rank<k>.KIND, where KIND is out, err or json.
  std::filesystem::path file(const std::string& run,
                             int64_t attempt,
                             int64_t rank,
                             const char* kind) const;
};

// Whether the text can be a run's id, which names a folder.
bool is_run_id(std::string_view text);

// Sets what torchrun's workers find in their environment: what export_environment() sets, ROLE_*,
// GROUP_WORLD_SIZE and TORCHELASTIC_*. As torchrun does, it leaves OMP_NUM_THREADS alone where
// there is one rank. TORCHELASTIC_USE_AGENT_STORE is False: rank 0 serves the store, at
// MASTER_PORT, which the launcher keeps free for it. A context without a board is that of another
// launcher's worker: what is set already stays.
void export_program_environment(const Program& program,
                                const RankContext& context,
                                bool threads_given);

// Becomes the program: in a session and process group of its own, with signals as a program finds
// them. If that fails, it is reported on the rank status board, and the process ends with 127.
[[noreturn]] void run_program(const Program& program,
                              const RankContext& context,
                              bool threads_given);

// Why a rank ended, as far as its error file (torch.distributed.elastic's) or, without one, its
// last words on standard error tell: the exception behind the last traceback, what a C++ exception
// said, or the last lines. "" if they tell nothing.
std::string cause_in(const std::filesystem::path& error_file, std::string_view last_words);

// Passes a signal on to a rank that is alive. A program that handles the signal gets it alone, and
// looks after what it has started, such as a data loader's workers; else its whole process group
// gets it, such as what a shell script waits for. Of SIGUSR1, a notice that ends nothing, only
// those of the group get it that handle it.
void pass_on(pid_t rank, int signal);

}  // namespace gantrain
