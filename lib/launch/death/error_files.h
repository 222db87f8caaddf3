// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "config/value.h"
#include "launch/death/death.h"

// The files in errors/ of a run folder. No torch: the launcher and the ranks write them.

namespace gantrain {

// What an error file says beside the rank's own death.
struct ErrorFileContext {
  int64_t local_rank = 0;   // the rank's number on it
  bool first_cause = true;  // false: the death follows from another rank's
  std::string last_state;   // absolute path of the newest state file, "" if there is none
  std::string resume;       // the command that goes on, "" if nothing does
};

// The content of errors/rank<k>.json, in the shape of torchelastic's error files:
// {"message": {"message": TEXT, "extraInfo": {"timestamp": SECONDS, "py_callstack": TEXT, ...}}}.
// The text is the whole one, however long; py_callstack has the stack of a crash below it.
// extraInfo also holds time (ISO 8601, UTC), rank, local_rank, host, pid, phase, collective (as in
// Death), iteration, kimg, exit_code, signal, signal_name, first_cause, last_state and resume; what
// does not apply is null. `when` is in seconds since 1970.
Json error_file(const Death& death, const ErrorFileContext& context, double when);

// The same for a command that failed before it was a rank: only time, host, pid and exit code.
Json error_file(const std::string& message, int exit_code, double when);

// Writes the file that TORCHELASTIC_ERROR_FILE names, where torchrun looks for the cause of a
// worker's end; does nothing where that variable is not set. Throws UserError(kDisk).
void write_elastic_file(const Json& content);

// Writes errors/rank<k>.json in a run folder, which must exist. Throws UserError(kDisk).
void write_error_file(const std::filesystem::path& run_folder, int64_t rank, const Json& content);

// Writes errors/collectives-rank<k>.jsonl in a run folder, which must exist: the rank's last
// collectives, the oldest first, a JSON object each: number, what, purpose, phase, tensors, bytes,
// begun (seconds since 1970) and seconds (null: it has not ended, or on a GPU nobody waited for its
// end). No file where there are none. Throws UserError(kDisk).
void write_collectives(const std::filesystem::path& run_folder,
                       int64_t rank,
                       const RankTrace& trace);

// Writes errors/word-rank<k>.json in a run folder, which must exist: what a worker of another
// launcher tells the other workers of how it ended. Throws UserError(kDisk).
void write_word(const std::filesystem::path& run_folder, const Death& death);

// The words of a run's workers that were written at monotonic_ns() `since` or later, each with the
// time of its writing as `ns`. What cannot be read is left out.
std::vector<Death> words_in(const std::filesystem::path& run_folder, int64_t since);

// Moves the error files of an earlier session or attempt to errors/earlier-<n>/, n from 1 on, so
// that errors/rank*.json always belong to the present one. It never throws: it warns.
void set_errors_aside(const std::filesystem::path& run_folder);

// The processes of one launcher, or one worker of another launcher.
struct RankPids {
  std::string host;
  pid_t launcher = 0;               // the process that started the ranks
  std::map<int64_t, int64_t> pids;  // by rank
  int64_t first_rank = 0;           // of all that it starts, though that one may be lost
};

// Writes which process is which rank while it runs: errors/pids.json with rank 0, else
// errors/pids-rank<k>.json with k the first rank. {"0": 1234, ..., "host": "...", "launcher":
// 1230}. Throws UserError(kDisk).
void write_pids(const std::filesystem::path& run_folder, const RankPids& ranks);

// The text of that file, "" if there is none.
std::string pids_text(const std::filesystem::path& run_folder, int64_t first_rank);

// Removes that file after the ranks have ended, and errors/ if nothing is left in it.
void remove_pids(const std::filesystem::path& run_folder, int64_t first_rank);

}  // namespace gantrain
