// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <any>
#include <filesystem>
#include <string>
#include <vector>

#include "bench/requests.h"
#include "config/value.h"
#include "data/options.h"
#include "launch/where/devices.h"

namespace gantrain {

struct LookRequest;
struct ModelRequest;

// Loads the trainer library (LibTorch and all code that computes), which lies beside the program or
// in ../lib of its folder, once, and returns one of its functions by name. With `cuda` it first
// loads the CUDA libraries, which must be loaded before the first LibTorch call. Throws
// UserError(kEnvironment) where a library or the function cannot be loaded.
void* trainer_function(const char* name, bool cuda);

// Where the CUDA library lies, beside the trainer library; empty where it was not built.
std::filesystem::path cuda_library();

// Names of the trainer library's functions.
inline constexpr const char* kPrepare = "gantrain_prepare";     // void(const char* config_json)
inline constexpr const char* kRankMain = "gantrain_rank_main";  // RankMain (lib/launch/rank.h)
// int(const char* verb, const std::any& request)
inline constexpr const char* kVerbMain = "gantrain_run_verb";

inline constexpr const char* kLook = "gantrain_look";  // const char*(const char* request_json)

// Opens the data of a configuration and returns the sizes of its pictures. The trainer library does
// that in a process of its own, so that this one stays small. Throws UserError as open_dataset()
// does.
PictureSizes look_at_data(const LookRequest& request);

// Calls a verb that computes with its request, of the type that main/requests.h names, and
// returns its exit status.
int call_trainer(const char* verb, const std::any& request, bool cuda);

// Loads the serve library, which lies there, too, and knows no LibTorch, and calls its function
// with the message of ServeOptions. Throws UserError(kEnvironment) where it cannot be loaded.
void call_serve(const std::string& json);

// Asks the trainer library for the seconds of an iteration in each way of using the cores, in a
// child of this process, which stays small. Where that fails, which -v tells, the list is empty.
std::vector<double> time_uses_in_child(const TimeUsesRequest& request);

// What this machine and this build have for a verb that computes: the one source of
// decide_device(). For `wanted` kCpu nothing is looked at.
GpuOutlook gpu_outlook(DeviceKind wanted, const Env& env);

// Where the driver is too old and NVIDIA's forward-compatibility package is in one of its usual
// places, starts this program again in its own place with that folder at the head of
// LD_LIBRARY_PATH, which the loader reads when a program starts: the package's library opens others
// from there. Else it returns. To be called before anything else.
void use_compatibility_package(char** argv);

// Whether a verb that was given this `--device` computes on a GPU. Throws as decide_device() does.
bool computes_on_gpu(DeviceKind wanted);

// Puts together what the flags of a verb that draws say of the model, and where it computes.
// Conditions that depend on the model (whether it has a w space, how many classes) are checked
// where it is loaded. Throws UserError in one line.
void decide_model(const std::string& verb, ModelRequest& request);

}  // namespace gantrain
