// SPDX-License-Identifier: Apache-2.0
#include "main/trainer_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "config/schema.h"
#include "launch/local/processes.h"
#include "launch/where/network.h"
#include "train/train_request.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

constexpr const char* kTrainer = "libgantrain_trainer.so";
constexpr const char* kCuda = "libgantrain_cuda.so";
constexpr const char* kServe = "libgantrain_serve.so";
constexpr const char* kTorch = "2.11.0";

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

// The ways in which the program can be installed; each has its own way to what is missing.
enum class Installation {
  kBuild,   // the build folder, libraries beside the program
  kWheel,   // a Python environment, whose PyTorch brings LibTorch's and CUDA's libraries
  kPackage  // a Debian package, a tree, an image: LibTorch's libraries are inside
};

Installation installation() {
  const fs::path here = executable_folder();
  if (fs::exists(here / kTrainer)) return Installation::kBuild;
  return fs::exists(here.parent_path() / "__main__.py") ? Installation::kWheel
                                                        : Installation::kPackage;
}

// How this installation gets a CUDA library.
std::string way_to_cuda() {
  switch (installation()) {
    case Installation::kBuild:
      return "build it with GANTRAIN_CUDA=ON ./scripts/build.sh release";
    case Installation::kWheel:
      return "install a wheel that was made of a build with GANTRAIN_CUDA=ON";
    case Installation::kPackage:
      break;
  }
  return "install a wheel, or a package that was made with --cuda";
}

// How this installation gets the libraries that the CUDA library needs.
std::string way_to_cuda_libraries() {
  const char* brings = installation() == Installation::kBuild ? "./scripts/run.sh installs them"
                       : installation() == Installation::kWheel
                           ? "pip install --force-reinstall torch=={} brings them"
                           : "a package that was made with --cuda has them";
  return fmt::format(
      "; gantrain doctor shows which libraries are missing, {}, --device cpu goes without",
      fmt::format(fmt::runtime(brings), kTorch));
}

void* open_library(const fs::path& path, const char* what, const std::string& way_out) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle != nullptr) return handle;
  const int problem = errno;  // the loader's text names no cause of a failed mapping
  const std::string text = dlerror();
  const bool unmapped = text.find("failed to map segment") != std::string::npos ||
                        text.find("annot allocate memory") != std::string::npos;
  rlimit limit{};
  const bool limited = ::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  if (unmapped && (problem == ENOMEM || limited))
    fail(Exit::kOutOfMemory, "out of host memory: {} cannot be loaded: {}", what, text);
  fail(Exit::kEnvironment, "{} cannot be loaded: {}{}", what, text, way_out);
}

// The version of the PyTorch or LibTorch whose libraries lie in the folder, "2.11.0" of
// "2.11.0+cu130"; "" where neither's file of it is there.
std::string torch_version(const fs::path& libraries) {
  for (const char* name : {"version.py", "build-version"}) {
    const fs::path file = libraries.parent_path() / name;
    std::error_code none;
    if (!fs::is_regular_file(file, none)) continue;
    const std::string text = read_file(file);
    const size_t line = text.find("__version__ = ");
    const size_t begin = text.find_first_of("0123456789", line == std::string::npos ? 0 : line);
    if (begin == std::string::npos) continue;
    return text.substr(begin, text.find_first_not_of("0123456789.", begin) - begin);
  }
  return "";
}

// The folder without a slash at its end, as completion writes it.
fs::path plain_folder(const fs::path& folder) {
  return folder.has_filename() ? folder : folder.parent_path();
}

// PyTorch's own libraries, where GANTRAIN_TORCH_LIB says that they lie: gantrain's that need them
// find them loaded then. Else their own run path leads to them.
void open_torch(bool cuda) {
  const char* given = std::getenv("GANTRAIN_TORCH_LIB");
  if (given == nullptr || *given == 0) return;
  const fs::path folder = plain_folder(given);
  const std::string version = torch_version(folder);
  if (!version.empty() && version != kTorch) {
    fail(Exit::kEnvironment,
         "gantrain needs PyTorch {}, and there is PyTorch {} in {}: pip install torch=={}",
         kTorch,
         version,
         given,
         kTorch);
  }
  for (const char* name : {"libc10.so", "libtorch_cpu.so", "libtorch_cuda.so"}) {
    if (!cuda && name == std::string_view("libtorch_cuda.so")) break;
    if (!fs::exists(folder / name)) {
      fail(Exit::kEnvironment,
           "GANTRAIN_TORCH_LIB={}: there is no {}; it is the folder torch/lib of PyTorch 2.11.0{}",
           given,
           name,
           cuda ? " with CUDA: pip install --force-reinstall torch==2.11.0"
                : ": pip install torch==2.11.0");
    }
    open_library(folder / name, "PyTorch's library", "; pip install torch==2.11.0 brings it");
  }
}

void* trainer_handle(bool cuda) {
  static void* handle = [cuda] {
    set_variables_of_libtorch();
    const fs::path trainer = need_library(kTrainer);
    open_torch(cuda);
    if (cuda) {
      const fs::path library = cuda_library();
      if (library.empty()) {
        fail(Exit::kEnvironment,
             "this build has no CUDA library: {}, or use --device cpu",
             way_to_cuda());
      }
      open_library(library, "the CUDA library", way_to_cuda_libraries());
    }
    return open_library(trainer,
                        "the trainer library",
                        "; GANTRAIN_TORCH_LIB=FOLDER names the libraries of PyTorch 2.11.0");
  }();
  return handle;
}

// What `work` writes to the descriptor in a process of its own; whatever else becomes of that one.
std::string answer_of_child(const std::function<void(int descriptor)>& work) {
  std::fflush(nullptr);  // else what is buffered would be printed twice
  Pipe pipe = make_pipe();
  const pid_t parent = getpid(), child = fork();
  if (child < 0) return "";
  if (child == 0) {
    die_with(parent);
    try {
      work(pipe.write.get());
    } catch (const std::exception& e) {
      debug("{}", e.what());
    }
    _exit(0);
  }
  pipe.write.close();
  std::string answer;
  while (read_from(pipe.read.get(), answer, SIZE_MAX)) {
  }
  ::waitpid(child, nullptr, 0);
  return answer;
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

PictureSizes look_at_data(const LookRequest& request) {
  const std::string text = json_line(message_of(request));
  const std::string answer = answer_of_child([&text](int descriptor) {
    using Look = const char* (*)(const char*);
    const auto look = reinterpret_cast<Look>(trainer_function(kLook, /*cuda=*/false));
    write_whole(descriptor, look(text.c_str()));
  });
  const Json json = Json::parse(answer, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return {};  // the run itself will meet with what has ended it
  const auto found = message_from<DataLook>(json);
  if (found.code != 0) fail(static_cast<Exit>(found.code), "{}", found.error);
  return found.sizes;
}

std::vector<double> time_uses_in_child(const TimeUsesRequest& request) {
  const std::string answer = answer_of_child([&request](int descriptor) {
    ::dup2(descriptor, STDOUT_FILENO);
    call_trainer("time uses", request, /*cuda=*/false);
    std::fflush(stdout);
  });
  const Json times = Json::parse(answer, nullptr, /*allow_exceptions=*/false);
  return times.is_array() ? times.get<std::vector<double>>() : std::vector<double>();
}

int call_trainer(const char* verb, const std::any& request, bool cuda) {
  using VerbMain = int (*)(const char*, const std::any&);
  return reinterpret_cast<VerbMain>(trainer_function(kVerbMain, cuda))(verb, request);
}

GpuOutlook gpu_outlook(DeviceKind wanted, const Env& env) {
  if (wanted == DeviceKind::kCpu) return {};
  const GpuDriver driver = look_at_driver();
  GpuOutlook outlook{
      visible_gpus(env, driver), driver.version, {}, !cuda_library().empty(), way_to_cuda()};
  // The forward-compatibility package is rare, and looking for it takes a process.
  if (outlook.visible.count > 0 && is_too_old(driver.version))
    outlook.compatibility = cuda_of_driver_library();
  return outlook;
}

void use_compatibility_package(char** argv) {
  const GpuDriver driver = look_at_driver();
  if (driver.devices.empty() || !is_too_old(driver.version)) return;
  if (cuda_of_driver_library() >= kNeededCuda) return;  // it is in the library path already
  const Env env = current_environment();
  const std::string folder = compatibility_folder(env);
  const std::string before = variable(env, "LD_LIBRARY_PATH");
  if (folder.empty() || starts_with(before, folder)) return;
  const std::string path = before.empty() ? folder : folder + ":" + before;
  setenv("LD_LIBRARY_PATH", path.c_str(), /*overwrite=*/1);
  execv(fs::read_symlink("/proc/self/exe").c_str(), argv);
}

bool computes_on_gpu(DeviceKind wanted) {
  return decide_device(wanted, gpu_outlook(wanted, current_environment())) == DeviceKind::kCuda;
}

}  // namespace gantrain
