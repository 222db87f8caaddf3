// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "util/field.h"

namespace gantrain {

enum class DeviceKind { kAuto, kCpu, kCuda };
constexpr std::array<std::string_view, 3> names(DeviceKind) { return {"auto", "cpu", "cuda"}; }

// Seconds that the launcher waits where no key of this section says how long. Only tests change
// them, and `meeting`, which is dist.timeout.
struct Patience {
  double after_failure = 2;     // from SIGTERM to SIGKILL after a rank has failed
  double to_end_a_save = 30;    // likewise, where a rank writes a save
  double second_interrupt = 2;  // that ranks have left to save after a second Ctrl-C
  double first_restart = 1;     // before the first restart; each further pause is twice as long
  double meeting = 600;         // for the launchers of the other nodes to come
};

// Section "launch": who takes part, and for how long the launcher waits for whom.
struct LaunchOptions {
  static constexpr const char* kSection = "launch.";
  std::optional<int64_t> nproc;  // per node; none: visible GPUs, else 1
  std::optional<int64_t> nproc_min;
  std::string rank_plan;
  int64_t nnodes = 1;
  std::optional<int64_t> nnodes_min;
  int64_t node_rank = 0;
  std::string master_addr;
  int64_t master_port = 0;  // 0: chosen by the kernel (one node) or by the job's id (Slurm, MPI)
  DeviceKind device = DeviceKind::kAuto;
  int64_t max_restarts = 0;
  Duration hang_timeout{600};
  Duration grace{30};
  std::optional<int64_t> threads;  // none: cores of the affinity mask / ranks of this node
  // none: 5 minutes, or a tenth of what is left of a shorter allocation
  std::optional<Duration> time_margin;
  std::optional<int64_t> keep_mb;  // none: a quarter more than was in use
  Patience patience;               // not a key
};

template <class Field>
void fields(LaunchOptions& o, Field&& field) {
  field("nproc",
        o.nproc,
        at_least(1),
        "ranks per node; auto: one per visible GPU; on a CPU what is measured to be fastest; "
        "--nproc MIN:MAX begins with MAX and goes on with MIN or more");
  field("nproc_min",
        o.nproc_min,
        at_least(1),
        "fewest ranks with which a run goes on when ranks are lost, whose places new ones take "
        "(--nproc MIN:MAX); auto: a lost rank ends the run");
  field("rank_plan",
        o.rank_plan,
        "for tests: how many ranks there are from which iteration on, as 0:4,120:3,200:4");
  field("nnodes",
        o.nnodes,
        at_least(1),
        "machines that take part; MIN:MAX: the run begins with MIN of them, goes on when some are "
        "lost and takes others in");
  field("nnodes_min",
        o.nnodes_min,
        at_least(1),
        "fewest machines with which a run goes on when some are lost (--nnodes MIN:MAX); auto: a "
        "lost machine ends the run");
  field("node_rank", o.node_rank, at_least(0), "number of this machine, from 0");
  field("master_addr", o.master_addr, "machine of rank 0; needed with several nodes");
  field("master_port", o.master_port, between(0, 65535), "port of rank 0; 0: chosen");
  field("device", o.device, "where ranks compute; auto: cuda if a GPU is visible, else cpu");
  field("max_restarts",
        o.max_restarts,
        at_least(0),
        "how often all ranks start again after one has died");
  field("hang_timeout",
        o.hang_timeout,
        at_least(0),
        "a run that makes no progress for so long is ended; 0: never");
  field("grace", o.grace, at_least(0), "time to save at Ctrl-C or SIGTERM before ranks are killed");
  field("threads",
        o.threads,
        at_least(1),
        "threads per rank; auto: cores / ranks of this node, or measured with nproc");
  field("time_margin",
        o.time_margin,
        at_least(0),
        "save and stop with exit 75 this long before the allocation ends (SLURM_JOB_END_TIME); "
        "auto: 5m, or a tenth of the time where less than 50m are left; 0: never");
  field("keep_mb",
        o.keep_mb,
        between(0, 1e9),
        "MB of freed tensors that a rank on a CPU keeps for reuse; auto: a quarter of what was in "
        "use; 0: none");
}

}  // namespace gantrain
