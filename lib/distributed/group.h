// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/tensor_files.h"
#include "core/tensors.h"
#include "distributed/options.h"
#include "util/rank_info.h"
#include "util/rank_trace.h"

namespace c10d {
class ProcessGroup;
}

namespace gantrain {

// What one rank has put through a process group since the group was made.
struct Traffic {
  int64_t collectives = 0;
  int64_t bytes = 0;    // of the tensors that the rank gave; the algorithm may send more or less
  double launched = 0;  // monotonic_seconds() when the last collective began
  double waited = 0;    // seconds inside calls of Group, each of which is one collective
  double returned = 0;  // monotonic_seconds() when the last of these calls returned
};

// What was put through between two counts.
Traffic difference(const Traffic& before, const Traffic& after);

// Seconds of that time in which the rank waited for collectives, on a CPU: in calls of Group, and,
// if the reducer has made the last one, since it began.
double waited_in(const Traffic& spent, double now);

// The ranks of a run. With one rank there is no process group and every call returns at once.
// The calls are collective: all ranks must make the same calls in the same order. If a rank fails
// or disappears, the others throw UserError(kEnvironment), which names the operation.
class Group {
 public:
  // Meets the other ranks and makes a first all-reduce with them. Tensors of later calls must be on
  // `device`. No operation waits longer than `timeout_seconds`. Where `given_up` is there, abort()
  // is to end what is under way with gloo, too, and collectives of NCCL neither end after their
  // time nor end the process when they fail; once it is true, nobody waits for this call any more,
  // and it says and ends nothing. Throws UserError(kEnvironment) with the address, the rank and
  // what can be done.
  static std::shared_ptr<Group> join(const Rendezvous& rendezvous,
                                     BackendKind backend,
                                     at::Device device,
                                     double timeout_seconds,
                                     const std::shared_ptr<const std::atomic<bool>>& given_up = {});
  ~Group();

  const RankInfo& ranks() const { return ranks_; }
  int64_t rank() const { return ranks_.rank; }
  int64_t world() const { return ranks_.world; }

  // Replaces the values by their sum over all ranks. `purpose` is a literal for the rank's trace.
  void sum_(at::Tensor& tensor, const char* purpose = "numbers");
  void broadcast_(at::Tensor& tensor);  // replaces the values by those of rank 0
  void barrier();                       // returns when all ranks have called it
  // Sends the tensor to rank `other`, or receives it from there, which that rank calls with the
  // other `sends`. No collective: it is neither counted nor traced.
  void exchange(at::Tensor& tensor, int64_t other, bool sends);

  // Runs `work` on rank 0 alone and returns when it is done, on all ranks. The others wait outside
  // of any collective, whose timeout would count, and call `waiting` several times a second.
  void on_rank_0(const std::function<void()>& work, const std::function<void()>& waiting);

  // Replaces the values of all tensors by those of rank 0, with one broadcast for each dtype. The
  // tensors may be on any device.
  void broadcast_state(const NamedTensors& tensors);

  // Makes every collective of this rank fail, those under way too where the group was joined so.
  // Any thread may call it.
  void abort();

  // Counts all collectives of this rank so far. With one rank all counts are 0.
  Traffic traffic() const;

  c10d::ProcessGroup* process_group() const;  // null with one rank; for lib/distributed only

 private:
  struct Impl;
  Group(const RankInfo& ranks, at::Device device);
  RankInfo ranks_;
  at::Device device_;
  std::unique_ptr<Impl> impl_;
};

// Returns the numbers that the ranks give, in their order. All ranks call it together.
std::vector<double> numbers_of_ranks(double mine, Group& group);

// The device on which the tensors of the group's calls must be. With one rank nothing is sent, so
// any device will do, and this is the CPU.
c10::Device device_of(const Group& group);

// From now on the collectives of this rank are also noted in `trace`, where a launcher can read
// them and which outlives the group. With one rank this does nothing.
void trace_collectives(const Group& group, RankTrace& trace);

// Aborts all groups that were abandoned, and returns when that is done or after `seconds`. Call it
// after the failure has been reported.
void abort_abandoned_groups(double seconds);

// Throws std::logic_error with the call and both devices if the tensor is not on the group's.
void check_on_group_device(const char* call, c10::Device tensor, c10::Device group);

// Returns that rank's text on every rank; only its first 1023 bytes are told. `device` is the
// group's. All ranks call it together.
std::string text_of_rank(const std::string& mine, int64_t rank, Group& group, c10::Device device);

// Throws UserError(kEnvironment) on all ranks if one of them objects, with the objection of the
// lowest rank that has one, as text_of_rank() tells it. `objection` is "" where this rank has none.
// All ranks call it together.
void throw_first_objection(const std::string& objection, Group& group, c10::Device device);

// Returns rank 0's text on every rank. `device` is the group's. All ranks call it together.
std::string shared_text(const std::string& mine, Group& group, c10::Device device);

// Throws UserError(kInternal) on every rank if ranks do not hold the same bits in all tensors, by
// checksums in one small all-reduce. The message names the first tensor that differs, by how much
// it differs from rank 0's, and the likely cause. Without `with_running_statistics`, tensors of the
// kind kRunningStatistic may differ.
void check_equal(Group& group, const StateTensors& tensors, bool with_running_statistics);

}  // namespace gantrain
