// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include <filesystem>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "core/torch.h"
#include "distributed/backend.h"
#include "distributed/meeting.h"
#include "support/catch.h"
#include "support/paths.h"

using namespace gantrain;

namespace {

// Loads the CUDA library as the trainer does; false, with the reason said, where there is none.
bool load_cuda_library() {
  const std::string path = build_folder() + "/libgantrain_cuda.so";
  if (!std::filesystem::exists(path)) {
    WARN("skipped: this build has no CUDA library");
    return false;
  }
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) return true;
  const std::string reason = dlerror();
  WARN("skipped: a library of CUDA's is missing here: " << reason);
  // What it lacks must be CUDA's: it is loaded before the trainer, whose functions it cannot have.
  CHECK_THAT(reason, !Catch::Contains("undefined symbol"));
  return false;
}

}  // namespace

TEST_CASE("TheCudaLibraryLoadsWithoutAGpuAndExportsTheNcclGroup") {
  if (!load_cuda_library()) return;
  CHECK(dlsym(RTLD_DEFAULT, kMakeNccl) != nullptr);
  CHECK(dlsym(RTLD_DEFAULT, kReadDevice) != nullptr);
}

TEST_CASE("AGpuThatIsNotThereHasNoIdentity") {
  if (!load_cuda_library()) return;
  CHECK_THROWS_WITH(read_device_identity(4000),
                    Catch::StartsWith("GPU 4000: CUDA cannot name it (error "));
}

// The versions of NCCL fit, so that what is missing is the GPU.
TEST_CASE("WithoutAGpuNcclSaysSoAndNothingElse") {
  if (!load_cuda_library()) return;
  char pci[64], uuid[64];
  const auto read = reinterpret_cast<ReadDevice>(dlsym(RTLD_DEFAULT, kReadDevice));
  REQUIRE(read != nullptr);
  if (read(0, pci, sizeof pci, uuid, sizeof uuid) == 0) {
    WARN("skipped: there is a GPU");
    return;
  }
  const BackendSettings settings{.ranks = {}, .timeout = std::chrono::milliseconds(5000)};
  CHECK_THROWS_WITH(make_process_group(BackendKind::kNccl,
                                       c10::make_intrusive<c10d::HashStore>(),
                                       settings,
                                       at::Device(at::kCUDA, 0)),
                    Catch::Contains("no GPUs found"));
}
