// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace gantrain {

// A subject of `gantrain help TOPIC`.
struct HelpTopic {
  const char* name;
  const char* about;  // one line, for completion and the manual page
  // What is printed. A line "@VERB WORD..." stands for one row for each word, a flag of that verb
  // or, of train, a key of the configuration, as the program itself describes it; "@exit",
  // "@environment", "@metrics" and "@presets" stand for those tables. Null: verb_help.cpp prints
  // the topic, in a form of its own.
  const char* text;
};

// Returns all topics, in the order in which they are read best.
const std::vector<HelpTopic>& help_topics();

// Returns the text of a topic that has one, with its tables, in lines of up to 100 columns. Throws
// std::logic_error where a table names what the program does not have.
std::string topic_text(const HelpTopic& topic);

// The texts, in help_texts.cpp.
extern const char* const kStartHelp;
extern const char* const kDataHelp;
extern const char* const kDdpHelp;
extern const char* const kSlurmHelp;
extern const char* const kResumeHelp;
extern const char* const kMetricsHelp;
extern const char* const kExitHelp;

}  // namespace gantrain
