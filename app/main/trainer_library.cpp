// SPDX-License-Identifier: Apache-2.0
#include "main/trainer_library.h"

#include <dlfcn.h>

#include <cstdlib>

#include "util/error.h"
#include "util/file.h"

namespace gantrain {

namespace {

constexpr const char* kTrainer = "libgantrain_trainer.so";
constexpr const char* kCuda = "libgantrain_cuda.so";
constexpr const char* kServe = "libgantrain_serve.so";

fs::path find_library(const char* name) {
  const fs::path here = executable_folder();
  for (const fs::path& folder : {here, here.parent_path() / "lib"}) {
    if (fs::exists(folder / name)) return folder / name;
  }
  return {};
}

fs::path need_library(const char* name) {
  fs::path path = find_library(name);
  if (!path.empty()) return path;
  fail(Exit::kEnvironment,
       "{} is missing beside {}: the installation is incomplete",
       name,
       executable_folder().string());
}

void* open_library(const fs::path& path, const char* what, const char* way_out) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr)
    fail(Exit::kEnvironment, "{} cannot be loaded: {}{}", what, dlerror(), way_out);
  return handle;
}

// PyTorch's own libraries, where GANTRAIN_TORCH_LIB says that they lie: gantrain's that need them
// find them loaded then. Else their own run path leads to them.
void open_torch(bool cuda) {
  const char* given = std::getenv("GANTRAIN_TORCH_LIB");
  if (given == nullptr || *given == 0) return;
  const fs::path folder = given;
  for (const char* name : {"libc10.so", "libtorch_cpu.so", "libtorch_cuda.so"}) {
    if (!cuda && name == std::string_view("libtorch_cuda.so")) break;
    if (!fs::exists(folder / name)) {
      fail(Exit::kEnvironment,
           "GANTRAIN_TORCH_LIB={}: there is no {}; it is the folder torch/lib of PyTorch 2.11.0{}",
           given,
           name,
           cuda ? " with CUDA: pip install torch==2.11.0" : ": pip install torch==2.11.0");
    }
    open_library(folder / name, "PyTorch's library", "; pip install torch==2.11.0 brings it");
  }
}

void* trainer_handle(bool cuda) {
  static void* handle = [cuda] {
    // c10d logs what it also throws, with stack traces; the user's own setting wins.
    setenv("TORCH_CPP_LOG_LEVEL", "FATAL", /*overwrite=*/0);
    // LibTorch's OpenMP reads these once, when it is loaded.
    for (const auto& [name, value] : idle_threads(current_environment()).variables)
      setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
    const fs::path trainer = need_library(kTrainer);
    open_torch(cuda);
    if (cuda) {
      const fs::path library = cuda_library();
      if (library.empty()) {
        fail(Exit::kEnvironment,
             "this build has no CUDA library; build with GANTRAIN_CUDA=ON, or use --device cpu");
      }
      open_library(library,
                   "the CUDA library",
                   "; gantrain doctor shows which libraries are missing, ./scripts/run.sh installs "
                   "them, --device cpu goes without");
    }
    return open_library(trainer,
                        "the trainer library",
                        "; GANTRAIN_TORCH_LIB=FOLDER names the libraries of PyTorch 2.11.0");
  }();
  return handle;
}

void* function_of(void* handle, const char* library, const char* name) {
  void* function = dlsym(handle, name);
  if (function == nullptr)
    fail(Exit::kEnvironment, "{} has no {}: it is of another version", library, name);
  return function;
}

}  // namespace

void* trainer_function(const char* name, bool cuda) {
  return function_of(trainer_handle(cuda), kTrainer, name);
}

void call_serve(const std::string& json) {
  void* library = open_library(need_library(kServe), "the serve library", "");
  void* function = function_of(library, kServe, "gantrain_serve");
  reinterpret_cast<void (*)(const char*)>(function)(json.c_str());
}

fs::path cuda_library() { return find_library(kCuda); }

int call_trainer(const char* verb, const std::any& request, bool cuda) {
  using VerbMain = int (*)(const char*, const std::any&);
  return reinterpret_cast<VerbMain>(trainer_function(kVerbMain, cuda))(verb, request);
}

GpuOutlook gpu_outlook(DeviceKind wanted, const Env& env) {
  if (wanted == DeviceKind::kCpu) return {};
  const GpuDriver driver = look_at_driver();
  GpuOutlook outlook{visible_gpus(env, driver), driver.version, {}, !cuda_library().empty()};
  // The forward-compatibility package is rare, and looking for it takes a process.
  if (outlook.visible.count > 0 && is_too_old(driver.version))
    outlook.compatibility = cuda_of_driver_library();
  return outlook;
}

bool computes_on_gpu(DeviceKind wanted) {
  return decide_device(wanted, gpu_outlook(wanted, current_environment())) == DeviceKind::kCuda;
}

}  // namespace gantrain
