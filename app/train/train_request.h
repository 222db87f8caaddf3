// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bench/requests.h"
#include "config/config.h"
#include "config/value.h"
#include "data/options.h"
#include "distributed/options.h"
#include "launch/local/supervise.h"
#include "launch/options.h"
#include "launch/where/environment.h"
#include "tune/race.h"
#include "util/error.h"
#include "util/log.h"

namespace gantrain {

class FolderLock;

// What `gantrain train` tells the trainer library. Every rank of a run gets the same request, as
// the JSON text of message_of() (config/schema.h).
struct TrainRequest {
  Json config;                               // Config::to_json()
  std::string command;                       // the command line, for command.txt
  std::string defaults;                      // one line: values that were chosen, not asked for
  std::vector<std::string> chosen;           // lines: what the recipe chose, and why
  DeviceKind device = DeviceKind::kCpu;      // kCpu or kCuda
  int64_t gpus = 0;                          // GPUs that this node's ranks can use
  BackendKind backend = BackendKind::kGloo;  // kGloo or kNccl
  double started = 0;                        // monotonic_seconds() when the command began
  int64_t sharers = 1;                       // ranks that are forked once the data set is open
  Level level = Level::kInfo;                // of messages on standard error
};

template <class Field>
void fields(TrainRequest& r, Field&& field) {
  field("config", r.config);
  field("command", r.command);
  field("defaults", r.defaults);
  field("chosen", r.chosen);
  field("device", r.device);
  field("gpus", r.gpus);
  field("backend", r.backend);
  field("started", r.started);
  field("sharers", r.sharers);
  field("level", r.level);
}

// What the trainer library is asked of the data.
struct LookRequest {
  Json config;          // Config::to_json()
  bool labels = false;  // whether data without the labels that --cond asks for is refused
};

template <class Field>
void fields(LookRequest& r, Field&& field) {
  field("config", r.config);
  field("labels", r.labels);
}

// What it answers.
struct DataLook {
  int64_t code = 0;   // exit code of what was wrong; 0: nothing was
  std::string error;  // what was wrong
  PictureSizes sizes;
};

template <class Field>
void fields(DataLook& l, Field&& field) {
  field("code", l.code);
  field("error", l.error);
  field("sizes", l.sizes);
}

// Where a training is to run that is planned here.
struct TrainingSite {
  int64_t nodes = 1;
  int64_t ranks_per_node = 1;
  bool on_gpu = false;
};

// The configuration of a training that is planned.
struct PlannedConfig {
  Config config;
  std::set<std::string> given;  // keys, by the user's flags
};

// Returns the configuration that `words`, the user's arguments of `gantrain train`, make behind
// those that a verb has put `before` them; nothing if they ask for --help, which is printed then.
// Throws UserError(kUsage) for words that `train` would refuse, and for those that make no run of
// their own, such as --dry-run; `planner` is what the run is planned for: "a batch script".
std::optional<PlannedConfig> planned_config(const std::vector<std::string>& words,
                                            const std::string& planner,
                                            const std::vector<std::string>& before = {});

// Checks all that can be checked without data and devices. Throws UserError as `gantrain train`
// would there.
void check_training(Config config, const TrainingSite& site);

// A training as it would begin on this machine now.
struct PlannedTraining {
  Config config;  // with what is chosen by the data, ranks and device
  DeviceKind device = DeviceKind::kCpu;
  int64_t gpus = 0;  // that are visible
};

// Chooses all that is chosen before a process is started. Throws UserError as `gantrain train`
// would there.
PlannedTraining plan_training(Config config);

// Returns true if run.run_dir holds a run that has reached train.kimg, and then says so first.
bool already_done(const Config& config);

// Whether a run that ended with this code before it had a folder was refused for what was asked
// for: the user reads why at once, and no run has begun.
bool is_refusal(int code);

// The folder that a run is to have, or to make its folder in.
class StartFolder {
 public:
  explicit StartFolder(std::filesystem::path folder);
  // Makes it and its parents. Throws UserError(kDisk).
  void make() const;
  // After a refused start: removes what make() and the lock of the run have made, as far as nothing
  // else lies there.
  void undo() const;

 private:
  std::filesystem::path folder_;
  bool had_lock_ = false;
  std::vector<std::filesystem::path> missing_;  // the innermost first
};

// What the command line says about a run.
struct CommandPlace {
  std::string command;  // the whole command line
  std::string run_dir;  // run.run_dir, "" if it was not given
};

// Writes down how an attempt ended, so that the reason is on disk where nobody reads standard
// error: what the launcher has said in log.txt (on other nodes log-rank<k>.txt, k their first
// rank), an errors/rank<k>.json for each rank that failed, STATUS, and the file that
// TORCHELASTIC_ERROR_FILE names. Removes errors/pids.json. A run that has ended before its folder
// was known is written down in the one that the command line names, unless another run is at work
// there. It never throws: if something cannot be written, it warns once.
void record_end(const AttemptEnd& end, const CommandPlace& place);

// The same for what was wrong before a rank was started, such as a port in use.
void record_refusal(const World& world, const UserError& error, const CommandPlace& place);

// What is known of a run before any process is started.
struct Launch {
  Config config;
  LaunchOptions options;
  World world;
  DeviceKind device = DeviceKind::kCpu;  // cpu or cuda
  BackendKind backend = BackendKind::kGloo;
  bool device_was_auto = false;
  int64_t gpus = 0;                                     // visible and usable
  std::vector<std::string> chosen;                      // lines: what the recipe chose, and why
  int stopped_code = static_cast<int>(Exit::kStopped);  // --stopped-code
  std::string invitation;  // of an elastic run: what a node that joins it is told

  // The exit code of this process where the run ended with `code`.
  int code_of(int code) const {
    return code == static_cast<int>(Exit::kStopped) ? stopped_code : code;
  }
};

// All that can be refused before a process is started or a file is written. If `planned`, nothing
// will be started here, and --device cuda is a plan for any machine.
Launch prepare(const Config& config, bool flags_given, bool planned);

// The ways in which a run on so many cores of a CPU can use them, the plain default (one rank with
// all cores as threads) first: one rank of one thread, and ranks of a power of two among which all
// cores and the batch divide. Left out are numbers of ranks that would change the numbers of the
// run: those that the recipe's automatic values depend on, and those whose shares of the batch are
// no whole groups of pictures that are normalised together. `left_out` says why there are no ranks
// among the ways; "" where there are.
std::vector<ProcessorUse> uses_of_processors(const Config& config,
                                             int64_t cores,
                                             std::string& left_out);

// Chooses launch.nproc and launch.threads of a run on so many cores of this machine by timing some
// iterations in each way, in processes of their own; a resumed run keeps what it began with. Both
// keys then have the origin "auto (measured)", and the returned line has the figures. Nothing is
// measured, and "" returned, where the user, --deterministic or OMP_NUM_THREADS has decided, and
// for runs that would end sooner than a measurement pays. `complete` is the same run with the
// values that its recipe chooses for one rank. `time` returns the seconds of an iteration in each
// way, 0 where it does not know.
using TimeUses = std::function<std::vector<double>(const TimeUsesRequest&)>;
std::string choose_processors(Config& config,
                              const Config& complete,
                              int64_t cores,
                              const TimeUses& time);

// How much a dry run prints: the keys that something other than a default set, or every key, or one
// JSON line with every key.
enum class Shown { kSet, kAll, kJson };

// Prints keys with their values and origins, and the schedule that follows from them, to standard
// output. Returns 0.
int dry_run(const Launch& launch, Shown shown);

// What the verbs that race candidates ask for.
struct RaceWish {
  std::vector<std::string> tries;  // the words of --try
  std::string by;                  // a metric
  double extra = 0.3;              // kimg of those who lose, as a share of one run's
  std::filesystem::path folder;
  std::vector<std::string> words;  // the training's
  std::string command;             // the command line
  std::string verb;                // "a race"
  // Where the race would be too short: what to do.
  std::string advice = kRaceAdvice;
};

struct PlannedRace {
  Race race;
  RaceSite site;
  Config config;  // of the training without what is tried
};

// Plans a race on this machine; nothing where the training's words ask for --help, which is printed
// then. Throws UserError for what `gantrain train` would refuse of each candidate, for flags that
// the race decides, and for a metric that it cannot measure.
std::optional<PlannedRace> plan_race(const RaceWish& wish);
// The same with the configuration that wish.words make.
PlannedRace plan_race(const RaceWish& wish, Config config);

// Locks the folder of a race or a finetuning (`what`) against a second process with the same
// command. Throws UserError(kUsage) where there is one.
void take_folder(const std::filesystem::path& folder, const std::string& what, FolderLock& lock);

// Takes over where the race in the folder stands, if it has begun. Throws UserError(kUsage) where
// that is another one.
void go_on_with(PlannedRace& planned);

}  // namespace gantrain
