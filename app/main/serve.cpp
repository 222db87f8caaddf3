// SPDX-License-Identifier: Apache-2.0
// The serve library's one function. It is a library of its own because a distribution's cpp-httplib
// brings OpenSSL: no launcher and no rank has to load that.

#include "config/schema.h"
#include "serve/server.h"

extern "C" void gantrain_serve(const char* json) {
  gantrain::serve(gantrain::message_from<gantrain::ServeOptions>(gantrain::Json::parse(json)));
}
