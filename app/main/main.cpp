// SPDX-License-Identifier: Apache-2.0
// The thin program: command line, configuration, launcher. It never loads LibTorch; the trainer
// library (trainer.cpp and what it links) is loaded where something is computed.

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <new>
#include <system_error>
#include <utility>

#include "command/flags.h"
#include "command/options.h"
#include "config/config.h"
#include "launch/death/error_files.h"
#include "launch/local/processes.h"
#include "main/trainer_library.h"
#include "main/verbs.h"
#include "util/error.h"
#include "util/log.h"
#include "util/system.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

constexpr const char* kStart = R"(gantrain {0} - train GANs on one or many devices

  {1} --preset dcgan-tiny                          train on built-in pictures, right now
  {1} --nproc 8 --preset dcgan --data ~/photos     train on eight devices
  {1} generate --model runs/latest --seeds 0-63 -o grid.png

Commands:
)";

void print_start() {
  fmt::print(fmt::runtime(kStart), kVersion, program());
  for (const Verb& verb : verbs()) fmt::print("  {:<12} {}\n", verb.name, verb.about);
  fmt::print(
      "\n'{0} COMMAND --help' shows a command's flags, '{0} presets list' the presets, '{0} help' "
      "what else is explained.\n",
      program());
}

const Verb* find_verb(const std::string& name) {
  for (const Verb& verb : verbs()) {
    if (name == verb.name) return &verb;
  }
  return nullptr;
}

// Throws UserError(kUsage) with the command to type where the first word is a script of another
// program whose work a verb does.
void refuse_script(std::vector<std::string> arguments) {
  const std::string script = arguments[0], verb = verb_of_script(script);
  if (verb.empty()) return;
  arguments[0] = program() + " " + verb;
  for (size_t i = 1; i < arguments.size(); ++i) arguments[i] = shell_quote(arguments[i]);
  fail(Exit::kUsage, "{} is a script of another program; here: {}", script, join(arguments, " "));
}

int dispatch(std::vector<std::string> arguments) {
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h") {
    print_start();
    return 0;
  }
  if (arguments[0] == "--version" || arguments[0] == "-V") {
    fmt::print("gantrain {}\n", kVersion);
    return 0;
  }
  if (const Verb* verb = find_verb(arguments[0])) {
    arguments.erase(arguments.begin());
    return verb->run(arguments);
  }
  if (starts_with(arguments[0], "-")) return find_verb("train")->run(arguments);
  refuse_script(arguments);
  std::vector<std::string> names;
  for (const Verb& verb : verbs()) names.emplace_back(verb.name);
  std::string hint = did_you_mean(arguments[0], names);
  if (hint.empty()) hint = "; there are " + join(names, ", ");
  fail(Exit::kUsage, "unknown command {}{}", arguments[0], hint);
}

// Prints why the program ends, also for torchrun if this is one of its workers. Returns the exit
// code.
int end_with(Exit code, const std::string& message) {
  log_line(Level::kError, message);
  const int status = static_cast<int>(code);
  try {
    write_elastic_file(error_file(message, status, unix_seconds()));
  } catch (const UserError& e) {
    warn("{}", e.what());
  }
  return status;
}

Verb computing(Verb verb) {
  verb.computes = true;
  return verb;
}

// `train` is the command where none is named; `join` trains, too.
bool asks_for_training(const std::vector<std::string>& arguments) {
  return !arguments.empty() &&
         (arguments[0] == "train" || arguments[0] == "join" || starts_with(arguments[0], "-"));
}

int guarded(std::vector<std::string> arguments) {
  try {
    check_text(arguments);
    take_color(arguments);
    const int status = dispatch(arguments);
    if (std::fflush(stdout) != 0) fail(Exit::kDisk, "standard output: {}", errno_text());
    return status;
  } catch (const UserError& e) {
    return end_with(e.code(), e.what());
  } catch (const std::bad_alloc&) {
    return end_with(Exit::kOutOfMemory, "out of memory");
  } catch (const std::system_error&
               e) {  // a thread's, or fmt's, of a standard output that is full or closed
    const bool is_disk = e.code().value() == ENOSPC || e.code().value() == EIO ||
                         e.code().value() == EFBIG || e.code().value() == EDQUOT ||
                         e.code().value() == EBADF;
    if (lacks_threads(e)) return end_with(Exit::kEnvironment, kNoMoreThreads);
    return end_with(
        is_disk ? Exit::kDisk : Exit::kInternal,
        fmt::format("{}{}", is_disk ? "standard output: " : "internal error: ", e.what()));
  } catch (const std::exception& e) {
    return end_with(Exit::kInternal, fmt::format("internal error: {}", e.what()));
  }
}

}  // namespace

const std::vector<Verb>& verbs() {
  static const std::vector<Verb> table = {
      computing(train_verb()),
      computing(generate_verb()),
      computing(export_verb()),
      computing(import_verb()),
      computing(inspect_verb()),
      computing(interpolate_verb()),
      computing(metrics_verb()),
      computing(features_verb()),
      computing(average_verb()),
      computing(nn_verb()),
      computing(project_verb()),
      computing(edit_verb()),
      report_verb(),
      serve_verb(),
      slurm_verb(),
      kube_verb(),
      launch_verb(),
      tune_verb(),
      finetune_verb(),
      presets_verb(),
      computing(data_verb()),
      computing(doctor_verb()),
      computing(bench_verb()),
      track_verb(),
      computing(join_verb()),
      help_verb(),
  };
  return table;
}

}  // namespace gantrain

int main(int argc, char** argv) {
  gantrain::use_compatibility_package(argv);
  std::vector<std::string> arguments(argv + 1, argv + argc);
  gantrain::note_program(argc > 0 ? argv[0] : "");
  std::signal(SIGXFSZ, SIG_IGN);  // a file that grows too long is an error of write(2) then
  std::signal(SIGCHLD, SIG_DFL);  // where the parent ignores it, children end without a status
  gantrain::end_on_early_signals(gantrain::asks_for_training(arguments));
  const int status = gantrain::guarded(std::move(arguments));
  gantrain::flush_standard_error(gantrain::kLastWords);
  std::fflush(nullptr);
#ifndef __SANITIZE_ADDRESS__  // which looks for leaks at exit
  _exit(status);              // LibTorch's static destructors take 50 ms and give back only memory
#endif
  return status;
}
