// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "util/field.h"

namespace gantrain {

struct ServeOptions {
  std::string folder;              // of runs, or a run's own
  std::string host = "127.0.0.1";  // address to listen on
  int64_t port = 8300;             // 0: the kernel chooses
  std::string token;               // "": no buttons, and only this machine may look
};

template <class Field>
void fields(ServeOptions& o, Field&& field) {
  field("folder", o.folder, said("RUNS"), "a folder of runs, or a run folder");
  field("host", o.host, "address to listen on; others need a token (127.0.0.1)");
  field("port", o.port, "port to listen on; 0: a free one (8300)");
  field("token",
        o.token,
        "auto: one is made and printed; FILE: its first line. With it SAVE and STOP work");
}

// Serves pages of the folder's runs until SIGINT or SIGTERM, and prints its address to standard
// output first:
//   GET /                the list of runs
//   GET /run/NAME        a run's page, which follows the run
//   GET /api/runs        the list as JSON
//   GET /metrics         all runs' numbers for Prometheus
//   POST /run/NAME/save, /run/NAME/stop   makes the file that a run at work looks for; the token is
//                        the form's field, or "Authorization: Bearer TOKEN"
// Without a loopback address every request needs the token; with one, requests must name such a
// host. Nothing but these pages is read or written. Throws UserError(kEnvironment) where it cannot
// listen.
void serve(const ServeOptions& options);

}  // namespace gantrain
