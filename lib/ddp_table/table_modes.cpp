// SPDX-License-Identifier: Apache-2.0
#include "ddp_table/table_modes.h"

#include <algorithm>
#include <limits>

#include "core/torch.h"
#include "distributed/gradient_sync.h"
#include "distributed/reducer.h"

namespace gantrain {

namespace {

// One reducer for both networks, called in the order of MMDistributedDataParallel: at the start of
// an iteration the buckets are rebuilt, and at its end the reducer is armed for the next iteration.
// With kWholeDynamic it is armed before each backward pass as well, as DynamicIterBasedRunner does.
class WholeModel final : public TableMode {
 public:
  WholeModel(const TableSettings& settings, const Group& group, const TableGan& gan)
      : find_unused_(settings.find_unused), on_loss_(settings.way == TableWay::kWholeDynamic) {
    NamedTensors all = gan.G;
    all.insert(all.end(), gan.D.begin(), gan.D.end());
    for (const auto& [name, parameter] : gan.G) {
      if (settings.average)
        all.emplace_back("average." + name, parameter.detach().clone().requires_grad_(true));
    }
    std::reverse(all.begin(), all.end());
    // As in DistributedDataParallel: without a search for unused parameters there is one bucket
    // until the first rebuild.
    constexpr int64_t kOne = std::numeric_limits<int64_t>::max();
    ReducerSettings s;
    s.find_unused = find_unused_;
    s.views = false;
    if (!find_unused_) s.first_bucket_bytes = s.bucket_bytes = kOne;
    reducer_ = std::make_unique<BucketReducer>(s, group, all);
  }

  void begin_iteration(const TableStage& /*stage*/) override { reducer_->rebuild_buckets(); }
  at::Tensor expect_backward(bool /*of_G*/, const at::Tensor& loss) override {
    if (on_loss_) arm(loss);
    return loss;
  }
  void end_iteration(const at::Tensor& fake) override { arm(fake); }
  int64_t buckets(bool /*of_G*/) const override { return reducer_->buckets(); }
  bool zeroes() const override { return !on_loss_; }  // undefined ones fail with another message

 private:
  void arm(const at::Tensor& output) {
    reducer_->arm(find_unused_ ? std::vector<at::Tensor>{output} : std::vector<at::Tensor>{});
  }
  bool find_unused_, on_loss_;
  std::unique_ptr<BucketReducer> reducer_;
};

// The syncs that gantrain itself trains with.
class OwnMode final : public TableMode {
 public:
  OwnMode(const TableSettings& settings, std::shared_ptr<Group> group, const TableGan& gan)
      : group_(std::move(group)), gan_(gan), by_stage_(settings.way == TableWay::kOwn) {
    if (by_stage_) return;
    options_.ddp_mode = DdpMode::kWrapper;
    options_.find_unused = settings.find_unused ? FindUnused::kOn : FindUnused::kOff;
    make({});
  }

  void begin_iteration(const TableStage& stage) override {
    if (!by_stage_ || (of_G_ && stage.same_graph(stage_))) return;
    of_G_.reset();
    of_D_.reset();
    make(stage);
    stage_ = stage;
  }
  void begin_phase(bool of_G) override { sync(of_G).begin(/*last=*/true); }
  void forwarded(bool of_G, const at::Tensor& output) override { sync(of_G).forwarded("", output); }
  at::Tensor expect_backward(bool of_G, const at::Tensor& loss) override {
    return sync(of_G).expect_backward(loss);
  }
  void finish_phase(bool of_G) override { sync(of_G).finish(); }
  int64_t buckets(bool of_G) const override { return sync(of_G).buckets(); }
  bool freezes() const override { return by_stage_; }

 private:
  GradientSync& sync(bool of_G) const { return of_G ? *of_G_ : *of_D_; }

  void make(const TableStage& stage) {
    of_G_ = make_one("G", gan_.G, stage);
    of_D_ = make_one("D", gan_.D, stage);
  }

  std::unique_ptr<GradientSync> make_one(const std::string& name,
                                         const NamedTensors& parameters,
                                         const TableStage& stage) {
    NamedTensors chosen;
    for (const auto& item : parameters) {
      if (by_stage_ && !gan_.is_active(item.first, stage)) continue;
      chosen.push_back(item);
      chosen.back().second.requires_grad_(true);
    }
    return GradientSync::create(
        options_, group_, name, {{"", chosen}}, {/*all_used=*/by_stage_, /*some_frozen=*/false});
  }

  std::shared_ptr<Group> group_;
  const TableGan& gan_;
  bool by_stage_;
  DistOptions options_;
  TableStage stage_;
  std::unique_ptr<GradientSync> of_G_, of_D_;
};

}  // namespace

std::unique_ptr<TableMode> make_table_mode(const TableSettings& settings,
                                           const std::shared_ptr<Group>& group,
                                           const TableGan& gan) {
  const bool whole =
      settings.way == TableWay::kWholeModel || settings.way == TableWay::kWholeDynamic;
  if (whole && group->world() > 1) return std::make_unique<WholeModel>(settings, *group, gan);
  return std::make_unique<OwnMode>(settings, group, gan);
}

}  // namespace gantrain
