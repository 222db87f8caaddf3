// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <filesystem>

#include "cli.h"
#include "config/message.h"
#include "serve/access.h"
#include "serve/server.h"
#include "trainer_library.h"
#include "util/error.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

void check(const ServeOptions& options) {
  std::error_code error;
  if (options.folder.empty())
    fail(Exit::kUsage, "serve: the runs of which folder? gantrain serve RUNS");
  if (!fs::exists(options.folder, error)) fail(Exit::kInput, "{}: no such folder", options.folder);
  if (!fs::is_directory(options.folder, error))
    fail(Exit::kInput, "{}: no folder of runs, but a file", options.folder);
  if (options.port < 0 || options.port > 65535)
    fail(Exit::kUsage, "--port {}: 0 to 65535 are allowed", options.port);
  if (options.token.empty() && !is_loopback(options.host)) {
    fail(Exit::kUsage,
         "--host {} lets other machines in: --token auto or --token FILE must be given, too",
         options.host);
  }
}

}  // namespace

int serve_verb(const std::vector<std::string>& arguments) {
  CLI::App app(
      "Live pages of a folder's runs: status, verdict, pictures and curves; /metrics for "
      "Prometheus. Ctrl-C ends it.",
      "gantrain serve");
  ServeOptions options;
  std::string token;
  app.add_option("RUNS", options.folder, "a folder of runs, or a run folder");
  app.add_option("--host", options.host, "address to listen on; others need a token (127.0.0.1)");
  app.add_option("--port", options.port, "port to listen on; 0: a free one (8300)");
  app.add_option("--token",
                 token,
                 "auto: one is made and printed; FILE: its first line. With it SAVE and STOP work");
  if (!parse(app, arguments)) return 0;
  if (token == "auto") {
    options.token = random_token();
  } else if (!token.empty()) {
    options.token = token_in(token);
  }
  check(options);
  if (token == "auto") fmt::print("token {}\n", options.token);
  call_serve(message_of(options).dump());
  return 0;
}

}  // namespace gantrain
