// SPDX-License-Identifier: Apache-2.0
// That the counting backend hides no function of the backend below it.
#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "core/torch.h"
#include "distributed/counting_backend.h"
#include "util/file.h"

using namespace gantrain;

namespace {

using Tensors = CountingBackend::Tensors;
using TensorLists = CountingBackend::TensorLists;
using Work = CountingBackend::Work;
using Backend = c10d::Backend;
using BackendOptions = c10::intrusive_ptr<Backend::Options>;
using Hook = std::function<void(std::shared_ptr<c10d::WorkInfo>)>;

// A backend that does nothing but write down what it is asked for.
struct Recorder final : Backend {
  Recorder() : Backend(0, 1) {}

  Work note(const char* name) {
    calls->insert(name);
    return {};
  }
  template <class Result>
  Result note(const char* name, Result result) const {
    calls->insert(name);
    return result;
  }

  Work broadcast(Tensors&, const c10d::BroadcastOptions&) override { return note("broadcast"); }
  Work allreduce(Tensors&, const c10d::AllreduceOptions&) override { return note("allreduce"); }
  Work allreduce_sparse(Tensors&, const c10d::AllreduceOptions&) override {
    return note("allreduce_sparse");
  }
  Work allreduce_coalesced(Tensors&, const c10d::AllreduceCoalescedOptions&) override {
    return note("allreduce_coalesced");
  }
  Work reduce(Tensors&, const c10d::ReduceOptions&) override { return note("reduce"); }
  Work allgather(TensorLists&, Tensors&, const c10d::AllgatherOptions&) override {
    return note("allgather");
  }
  Work _allgather_base(at::Tensor&, at::Tensor&, const c10d::AllgatherOptions&) override {
    return note("_allgather_base");
  }
  Work allgather_coalesced(TensorLists&, Tensors&, const c10d::AllgatherOptions&) override {
    return note("allgather_coalesced");
  }
  Work allgather_into_tensor_coalesced(Tensors&, Tensors&, const c10d::AllgatherOptions&) override {
    return note("allgather_into_tensor_coalesced");
  }
  Work gather(TensorLists&, Tensors&, const c10d::GatherOptions&) override {
    return note("gather");
  }
  Work scatter(Tensors&, TensorLists&, const c10d::ScatterOptions&) override {
    return note("scatter");
  }
  Work reduce_scatter(Tensors&, TensorLists&, const c10d::ReduceScatterOptions&) override {
    return note("reduce_scatter");
  }
  Work _reduce_scatter_base(at::Tensor&, at::Tensor&, const c10d::ReduceScatterOptions&) override {
    return note("_reduce_scatter_base");
  }
  Work reduce_scatter_tensor_coalesced(Tensors&,
                                       Tensors&,
                                       const c10d::ReduceScatterOptions&) override {
    return note("reduce_scatter_tensor_coalesced");
  }
  Work alltoall_base(at::Tensor&,
                     at::Tensor&,
                     std::vector<int64_t>&,
                     std::vector<int64_t>&,
                     const c10d::AllToAllOptions&) override {
    return note("alltoall_base");
  }
  Work alltoall(Tensors&, Tensors&, const c10d::AllToAllOptions&) override {
    return note("alltoall");
  }
  Work send(Tensors&, int, int) override { return note("send"); }
  Work recv(Tensors&, int, int) override { return note("recv"); }
  Work recvAnysource(Tensors&, int) override { return note("recvAnysource"); }
  Work barrier(const c10d::BarrierOptions&) override { return note("barrier"); }
  void monitoredBarrier(const c10d::BarrierOptions&, bool) override { note("monitoredBarrier"); }
  void startCoalescing() override { note("startCoalescing"); }
  Work endCoalescing() override { return note("endCoalescing"); }
  const std::string getBackendName() const override {
    return note("getBackendName", std::string("recorder"));
  }
  BackendOptions getBackendOptions() override {
    return note("getBackendOptions", BackendOptions());
  }
  bool supportsSplitting() const override { return note("supportsSplitting", true); }
  bool supportsCoalescing() const override { return note("supportsCoalescing", true); }
  bool supportsTimeEstimation() const override { return note("supportsTimeEstimation", true); }
  bool supportsShrinking() const override { return note("supportsShrinking", true); }
  bool supportsTensorAlloc(c10::DeviceIndex) override { return note("supportsTensorAlloc", true); }
  c10::intrusive_ptr<Backend> shrink(const std::vector<int64_t>&,
                                     int,
                                     const BackendOptions&) override {
    return note("shrink", c10::intrusive_ptr<Backend>());
  }
  c10::intrusive_ptr<Backend> split(const c10::intrusive_ptr<c10d::Store>&,
                                    const std::vector<int>&,
                                    const BackendOptions&) override {
    return note("split", c10::intrusive_ptr<Backend>());
  }
  c10::intrusive_ptr<Backend> merge(const c10::intrusive_ptr<c10d::Store>&,
                                    const BackendOptions&,
                                    const int&,
                                    const int&) override {
    return note("merge", c10::intrusive_ptr<Backend>());
  }
  void setTimeout(std::chrono::milliseconds) override { note("setTimeout"); }
  void setSequenceNumberForGroup() override { note("setSequenceNumberForGroup"); }
  uint64_t getSequenceNumberForGroup() override {
    return note("getSequenceNumberForGroup", uint64_t{7});
  }
  void setGroupUid(const std::string&) override { note("setGroupUid"); }
  void registerOnCompletionHook(Hook&&) override { note("registerOnCompletionHook"); }
  void waitForPendingWorks() override { note("waitForPendingWorks"); }
  void enableCollectivesTiming() override { note("enableCollectivesTiming"); }
  void eagerConnectSingleDevice(at::Device) override { note("eagerConnectSingleDevice"); }
  c10d::ErrorType getError() override { return note("getError", c10d::ErrorType::COMM_ERROR); }
  std::shared_ptr<c10::Allocator> getMemAllocator() override {
    return note("getMemAllocator", std::shared_ptr<c10::Allocator>());
  }
  at::Tensor allocateTensor(long, at::TensorOptions) override {
    return note("allocateTensor", at::Tensor());
  }
  void abort() override { note("abort"); }
  void shutdown() override { note("shutdown"); }

  std::shared_ptr<std::set<std::string>> calls = std::make_shared<std::set<std::string>>();
};

// One call of each function through the base class, as c10d calls them.
std::map<std::string, std::function<void(Backend&)>> calls() {
  static at::Tensor one = torch::ones({2});
  static Tensors list = {one};
  static TensorLists lists = {list};
  static std::vector<int64_t> sizes;
  return {
      {"broadcast", [](Backend& b) { b.broadcast(list); }},
      {"allreduce", [](Backend& b) { b.allreduce(list); }},
      {"allreduce_sparse", [](Backend& b) { b.allreduce_sparse(list); }},
      {"allreduce_coalesced", [](Backend& b) { b.allreduce_coalesced(list); }},
      {"reduce", [](Backend& b) { b.reduce(list); }},
      {"allgather", [](Backend& b) { b.allgather(lists, list); }},
      {"_allgather_base", [](Backend& b) { b._allgather_base(one, one); }},
      {"allgather_coalesced", [](Backend& b) { b.allgather_coalesced(lists, list); }},
      {"allgather_into_tensor_coalesced",
       [](Backend& b) { b.allgather_into_tensor_coalesced(list, list); }},
      {"gather", [](Backend& b) { b.gather(lists, list); }},
      {"scatter", [](Backend& b) { b.scatter(list, lists); }},
      {"reduce_scatter", [](Backend& b) { b.reduce_scatter(list, lists); }},
      {"_reduce_scatter_base", [](Backend& b) { b._reduce_scatter_base(one, one); }},
      {"reduce_scatter_tensor_coalesced",
       [](Backend& b) { b.reduce_scatter_tensor_coalesced(list, list); }},
      {"alltoall_base", [](Backend& b) { b.alltoall_base(one, one, sizes, sizes); }},
      {"alltoall", [](Backend& b) { b.alltoall(list, list); }},
      {"send", [](Backend& b) { b.send(list, 0, 0); }},
      {"recv", [](Backend& b) { b.recv(list, 0, 0); }},
      {"recvAnysource", [](Backend& b) { b.recvAnysource(list, 0); }},
      {"barrier", [](Backend& b) { b.barrier(); }},
      {"monitoredBarrier", [](Backend& b) { b.monitoredBarrier({}, true); }},
      {"startCoalescing", [](Backend& b) { b.startCoalescing(); }},
      {"endCoalescing", [](Backend& b) { b.endCoalescing(); }},
      {"getBackendName", [](Backend& b) { CHECK(b.getBackendName() == "recorder"); }},
      {"getBackendOptions", [](Backend& b) { b.getBackendOptions(); }},
      {"supportsSplitting", [](Backend& b) { CHECK(b.supportsSplitting()); }},
      {"supportsCoalescing", [](Backend& b) { CHECK(b.supportsCoalescing()); }},
      {"supportsTimeEstimation", [](Backend& b) { CHECK(b.supportsTimeEstimation()); }},
      {"supportsShrinking", [](Backend& b) { CHECK(b.supportsShrinking()); }},
      {"supportsTensorAlloc", [](Backend& b) { CHECK(b.supportsTensorAlloc(0)); }},
      {"shrink", [](Backend& b) { b.shrink({0}); }},
      {"split", [](Backend& b) { b.split({}, {0}, {}); }},
      {"merge", [](Backend& b) { b.merge({}, {}, 0, 1); }},
      {"setTimeout", [](Backend& b) { b.setTimeout(std::chrono::milliseconds(1)); }},
      {"setSequenceNumberForGroup", [](Backend& b) { b.setSequenceNumberForGroup(); }},
      {"getSequenceNumberForGroup", [](Backend& b) { CHECK(b.getSequenceNumberForGroup() == 7); }},
      {"setGroupUid",
       [](Backend& b) {
         b.setGroupUid("7");
         CHECK(b.getGroupUid() == "7");
       }},
      {"registerOnCompletionHook",
       [](Backend& b) {
         b.registerOnCompletionHook([](const std::shared_ptr<c10d::WorkInfo>&) {});
         CHECK(b.hasHooks());
       }},
      {"waitForPendingWorks", [](Backend& b) { b.waitForPendingWorks(); }},
      {"enableCollectivesTiming", [](Backend& b) { b.enableCollectivesTiming(); }},
      {"eagerConnectSingleDevice", [](Backend& b) { b.eagerConnectSingleDevice(at::kCPU); }},
      {"getError", [](Backend& b) { CHECK(b.getError() == c10d::ErrorType::COMM_ERROR); }},
      {"getMemAllocator", [](Backend& b) { b.getMemAllocator(); }},
      {"allocateTensor", [](Backend& b) { b.allocateTensor(1); }},
      {"abort", [](Backend& b) { b.abort(); }},
      {"shutdown", [](Backend& b) { b.shutdown(); }},
  };
}

// The names of the functions that LibTorch's class declares as virtual.
std::set<std::string> virtual_functions() {
  const std::string header =
      read_file(std::string(GANTRAIN_TORCH_INCLUDE) + "/torch/csrc/distributed/c10d/Backend.hpp");
  const std::regex pattern(R"(\n\s*virtual [^;{(]*?(\w+)\s*\()");
  std::set<std::string> names;
  for (auto at = std::sregex_iterator(header.begin(), header.end(), pattern);
       at != std::sregex_iterator();
       ++at) {
    names.insert((*at)[1]);
  }
  return names;
}

}  // namespace

TEST_CASE("EveryVirtualFunctionOfABackendIsKnownToThisTest") {
  std::set<std::string> known;
  for (const auto& [name, call] : calls()) known.insert(name);
  CHECK(virtual_functions() == known);
}

TEST_CASE("TheCountingBackendForwardsEveryCall") {
  for (const auto& [name, call] : calls()) {
    CAPTURE(name);
    const auto recorder = c10::make_intrusive<Recorder>();
    CountingBackend counting(recorder, at::kCPU);
    call(counting);
    CHECK(*recorder->calls == std::set<std::string>{name});
  }
}

TEST_CASE("EveryCollectiveIsCountedAndRefusesATensorOfAnotherDevice") {
  const std::set<std::string> collectives = {"broadcast",
                                             "allreduce",
                                             "allreduce_sparse",
                                             "allreduce_coalesced",
                                             "reduce",
                                             "allgather",
                                             "_allgather_base",
                                             "allgather_coalesced",
                                             "allgather_into_tensor_coalesced",
                                             "gather",
                                             "scatter",
                                             "reduce_scatter",
                                             "_reduce_scatter_base",
                                             "reduce_scatter_tensor_coalesced",
                                             "alltoall_base",
                                             "alltoall",
                                             "send",
                                             "recv",
                                             "recvAnysource"};
  for (const auto& [name, call] : calls()) {
    CAPTURE(name);
    const bool counted =
        collectives.count(name) > 0 || name == "barrier" || name == "monitoredBarrier";
    CountingBackend here(c10::make_intrusive<Recorder>(), at::kCPU);
    std::atomic<int64_t> published{-1};
    here.publish(published);
    call(here);
    CHECK(here.traffic().collectives == (counted ? 1 : 0));
    CHECK(published == here.traffic().collectives);
    const auto recorder = c10::make_intrusive<Recorder>();
    CountingBackend elsewhere(recorder, at::Device(at::kCUDA, 0));
    if (collectives.count(name) == 0) continue;
    CHECK_THROWS_AS(call(elsewhere), std::logic_error);
    CHECK_THROWS_WITH(call(elsewhere), Catch::Contains("a tensor on cpu in a group on cuda:0"));
    CHECK(recorder->calls->empty());
    CHECK(elsewhere.traffic().collectives == 0);
  }
}
