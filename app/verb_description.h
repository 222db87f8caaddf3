// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "cli.h"

namespace gantrain {

// One flag or argument of a verb, as --help shows it.
struct FlagDescription {
  std::vector<std::string> names;  // "--seeds", "-o"; none if it is an argument alone
  std::string argument;            // "PATH" if it can stand without a flag, too; else ""
  std::string help;
  std::string value;  // what follows the flag: "TEXT", "INT"; "" for a switch
  std::string group;  // heading in --help; "" for most verbs
};

// What one verb takes, as the verb itself declares it: completion and manual pages are made of
// this.
struct VerbDescription {
  std::string name;   // "generate", "data pack"
  std::string about;  // what it does, one or more sentences
  std::vector<FlagDescription> flags;
};

// The only argument with which a verb tells its flags instead of doing anything.
inline constexpr const char* kDescribeFlag = "--describe-flags";

// Thrown by parse_known() when kDescribeFlag is the only argument; only describe() asks for it.
struct FlagsDescribed {
  VerbDescription description;
};

// Returns the flags that `app` takes.
std::vector<FlagDescription> describe_flags(const CLI::App& app);

// Returns what the verb takes. A verb of parts, as `data`, has no flags of its own.
VerbDescription describe(const Verb& verb);

// Returns every verb that takes flags, parts as "data pack", in the order of the help.
std::vector<VerbDescription> describe_verbs();

}  // namespace gantrain
