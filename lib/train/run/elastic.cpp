// SPDX-License-Identifier: Apache-2.0
#include "train/run/elastic.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <stdexcept>
#include <utility>

#include "core/device.h"
#include "core/torch.h"
#include "train/save/run_folder.h"
#include "train/step/training_step.h"
#include "util/error.h"
#include "util/log.h"
#include "util/system.h"
#include "util/wording.h"

namespace gantrain {

namespace {

// All in seconds.
constexpr double kLookForLoss = 0.002;  // between two looks at whether a rank is lost
constexpr double kEvidence = 5;         // for the launcher to see why a collective has failed
// Longer than other nodes may be silent, and those that are left take to find who leads them.
constexpr double kEvidenceOfNodes = 40;
constexpr double kAbort = 2;  // for a group to end its collectives

struct RankLost : std::runtime_error {
  RankLost() : std::runtime_error("a rank is lost") {}
};

void pause() { std::this_thread::sleep_for(std::chrono::duration<double>(kLookForLoss)); }

// Whether the failure that is being handled may follow from the loss of a rank.
bool may_follow_from_loss() {
  try {
    throw;
  } catch (const UserError& e) {
    return e.code() == Exit::kEnvironment || e.code() == Exit::kInternal;
  } catch (const std::exception&) {
    return true;
  }
}

// A failed collective shows that something has happened; that a rank is lost is known from the
// launcher, which sees the processes end.
bool rank_is_lost(const ElasticHooks& hooks, int64_t nodes) {
  if (!may_follow_from_loss()) return hooks.lost();
  const double begin = monotonic_seconds();
  const auto evidence = [&] {  // at a stop there may be little time
    return nodes > 1 && hooks.stop_signal() == 0 ? kEvidenceOfNodes : kEvidence;
  };
  while (!hooks.lost() && monotonic_seconds() - begin < evidence()) pause();
  return hooks.lost();
}

}  // namespace

void BorderMemory::keep(const StateTensors& state, const Counters& counters, int64_t before) {
  const torch::NoGradGuard no_grad;
  kept_ = false;
  copies_.resize(state.size());
  for (size_t i = 0; i < state.size(); ++i) {
    const at::Tensor now = state[i].tensor.detach();
    at::Tensor& copy = copies_[i];
    if (!copy.defined() || copy.sizes() != now.sizes() || copy.dtype() != now.dtype())
      copy = torch::empty_like(now);
    copy.copy_(now);
  }
  counters_ = counters;
  before_ = before;
  kept_ = true;
}

void BorderMemory::finish(const Counters& counters) {
  counters_ = counters;
  before_ = -1;
}

bool BorderMemory::recall(const NamedTensors& state, Counters& counters) const {
  if (!kept_) return false;
  const torch::NoGradGuard no_grad;
  TORCH_CHECK(state.size() == copies_.size(), "another state than the one that was kept");
  for (size_t i = 0; i < copies_.size(); ++i) state[i].second.detach().copy_(copies_[i]);
  counters = counters_;
  counters.micro_batch = 0;  // it was chosen for another share
  return true;
}

int64_t BorderMemory::still_to_take(const StateTensors& state) const {
  int64_t bytes = 0;
  for (const StateTensor& item : state) bytes += static_cast<int64_t>(item.tensor.nbytes());
  for (const at::Tensor& copy : copies_) {
    if (copy.defined()) bytes -= static_cast<int64_t>(copy.nbytes());
  }
  return std::max<int64_t>(bytes, 0);
}

// The thread that joins is left alone if it is not wanted any more: it ends when its time is over,
// but for NCCL, which has no end there.
std::shared_ptr<Group> Generation::join_whole(double timeout_seconds) const {
  auto promise = std::make_shared<std::promise<std::shared_ptr<Group>>>();
  auto given_up = std::make_shared<std::atomic<bool>>(false);
  std::future<std::shared_ptr<Group>> joined = promise->get_future();
  {
    const BlockSignals blocked;
    std::thread([promise,
                 given_up,
                 meeting = setup_.rendezvous,
                 backend = setup_.backend,
                 device = setup_.device,
                 timeout_seconds] {
      try {
        promise->set_value(Group::join(meeting, backend, device, timeout_seconds, given_up));
      } catch (...) {
        promise->set_exception(std::current_exception());
      }
    }).detach();
  }
  const std::chrono::duration<double> look(kLookForLoss);
  while (joined.wait_for(look) != std::future_status::ready) {
    if (!session_->hooks.lost()) continue;
    *given_up = true;
    throw RankLost();
  }
  return joined.get();
}

void Generation::watch_for_loss() {
  const BlockSignals blocked;
  watch_ = std::thread([this] {
    while (!ended_ && !session_->hooks.lost()) pause();
    if (!ended_) group_->abort();
  });
}

std::shared_ptr<Group> Generation::join(double timeout_seconds) {
  if (session_ == nullptr)
    return Group::join(setup_.rendezvous, setup_.backend, setup_.device, timeout_seconds);
  group_ = join_whole(timeout_seconds);
  watch_for_loss();
  return group_;
}

Generation::~Generation() {
  ended_ = true;
  if (watch_.joinable()) watch_.join();
}

RunStart Generation::begin(const RunOptions& options,
                           TrainingStep& step,
                           Group& group,
                           const ClassTable& classes) {
  if (session_ == nullptr) return load_or_begin(setup_, options, step, group, classes);
  RunStart start;
  start.folder = session_->hooks.run_folder();
  const NamedTensors state = named(step.state());
  const bool kept = group.rank() == 0 && session_->memory.recall(state, start.counters);
  start.went_on = share_state(group, kept, state, start.counters);
  if (!start.went_on) {
    const std::filesystem::path folder = start.folder;
    start = load_or_begin(setup_, options, step, group, classes);
    start.folder = folder;
    return start;
  }
  start.resumed = true;
  start.counters.cpu_choice = shared_text(start.counters.cpu_choice, group, setup_.device);
  const auto of_rank_0 = [&](double mine) { return numbers_of_ranks(mine, group).front(); };
  session_->unfinished =
      static_cast<int64_t>(of_rank_0(static_cast<double>(session_->memory.unfinished())));
  foretold_ = session_->foretold = of_rank_0(session_->foretold ? 1 : 0) > 0;
  // The others may be lost before this rank has finished an iteration.
  if (session_->memory.border() != start.counters.iteration)
    session_->memory.keep(step.state(), start.counters, session_->unfinished);
  step.begin();
  return start;
}

Manifest Generation::manifest(const RunStart& start,
                              const Dataset& dataset,
                              const RunOptions& options) const {
  if (start.went_on) return kept_manifest(start.folder, setup_);
  const std::filesystem::path before =
      start.resumed ? std::filesystem::absolute(start.resumed_from).parent_path()
                    : std::filesystem::path();
  return compare_data(before, dataset, setup_, options);
}

void Generation::say_ranks(const TrainingStep& step, const Counters& counters) const {
  info("ranks   {} -> {} at iteration {}, {} kimg, from memory; {}",
       session_->ranks_before,
       setup_.rendezvous.ranks.world,
       counters.iteration,
       kimg_text(counters.images_seen),
       batch_text(step.plan(), setup_.config));
  warn_of_split_groups(step);
}

std::optional<int64_t> Generation::unfinished() const {
  if (session_ == nullptr || session_->unfinished < 0) return std::nullopt;
  return session_->unfinished;
}

bool Generation::lost_a_save(const std::filesystem::path& folder, int64_t batch) const {
  if (session_ == nullptr || session_->saved_at < 0 || unfinished()) return false;
  for (const NumberedFile& state : find_states(folder))
    if (state.images + batch > session_->saved_at) return false;  // a name may have whole kimg
  info("save    the state at {} kimg was lost with the rank that wrote it: saved now",
       kimg_text(session_->saved_at));
  return true;
}

void Generation::keep(const TrainingStep& step,
                      const Counters& counters,
                      int64_t before,
                      Reporter& reporter) {
  if (session_ == nullptr) return;
  // A GPU may still wait for a collective whose ranks are gone. Once it is aborted, what stands
  // behind it computes with half a sum: such an iteration must not take the place of a whole one.
  wait_for(setup_.device);
  if (is_gpu(setup_.device) && session_->hooks.lost()) throw RankLost();
  session_->memory.keep(step.state(), counters, before);
  reporter.count("Progress/ranks", static_cast<double>(setup_.rendezvous.ranks.world));
}

void Generation::finish(const Counters& counters, bool saves) {
  if (session_ == nullptr) return;
  session_->memory.finish(counters);
  if (saves) session_->saved_at = counters.images_seen;
}

void Generation::check_start(const Dataset& dataset, Group& group) const {
  if (is_first()) {
    check_same_start(setup_, dataset, group);
    if (session_ != nullptr) session_->compared = true;
    return;
  }
  RankInfo ranks = group.ranks();
  if (ranks.nodes == 1) return;
  const bool is_new = !session_->compared;
  if (!contains(numbers_of_ranks(is_new ? 1 : 0, group), 1.0)) return;
  ranks.local_rank = is_new || ranks.rank == 0 ? 0 : 1;
  const std::string objection = difference_from_rank_0(setup_, dataset, group, ranks);
  if (is_new && !objection.empty()) fail(Exit::kUsage, "{}", objection);  // follows from no loss
  session_->compared = true;
}

bool Generation::ends(const RankRequests& granted, const Counters& counters) {
  if (session_ == nullptr) return false;
  const int64_t planned = session_->hooks.planned(counters.iteration);
  session_->regroups = granted.regroup || (planned > 0 && planned != setup_.rendezvous.ranks.world);
  return session_->regroups;
}

void Generation::foretell(Reporter& reporter, const Counters& counters, int64_t batch, bool grows) {
  if (foretold_) return;
  foretold_ = reporter.foretell(counters, batch, grows);
  if (session_ != nullptr) session_->foretold = foretold_;
}

Exit train_elastically(const TrainSetup& setup, const std::function<Exit(const TrainSetup&)>& run) {
  const ElasticHooks& hooks = *setup.elastic;
  ElasticSession session{hooks};
  const Level level = log_console_level();  // of rank 0, which another one may become
  while (true) {
    const std::optional<Rendezvous> place = hooks.meet(session.memory.border());
    if (!place) return Exit::kDone;
    TrainSetup now = setup;
    now.rendezvous = *place;
    now.session = &session;
    now.callbacks.phase = [&setup, &hooks](const std::string& name) {
      setup.callbacks.phase(name);
      if (hooks.lost()) throw RankLost();
    };
    session.regroups = false;
    session.unfinished = -1;
    set_log({level, Level::kInfo, {}, ""});
    try {
      const Exit end = run(now);
      if (!session.regroups) return end;
    } catch (const std::exception& e) {
      if (!rank_is_lost(hooks, place->ranks.nodes)) throw;
      debug("this generation of ranks has ended: {}", e.what());
    }
    abort_abandoned_groups(kAbort);
    session.ranks_before = place->ranks.world;
  }
}

}  // namespace gantrain
