// SPDX-License-Identifier: Apache-2.0
#include "config/config.h"
#include "main/help.h"
#include "main/verbs.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

// Text as roff shows it: no character is a command, hyphens can be searched for and copied.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if (c == '\n') {
      out += "\n.br\n";
    } else {
      if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) out += "\\&";
      out += c;
    }
  }
  return out;
}

std::string heading(const std::string& name, const std::string& about) {
  return fmt::format(".TH {} 1 \"\" \"gantrain {}\" \"gantrain\"\n.SH NAME\n{} \\- {}\n",
                     roff(name),
                     roff(kVersion),
                     roff(name),
                     roff(about));
}

std::string item(const std::string& term, const std::string& text) {
  return fmt::format(".TP\n{}\n{}\n", term, roff(text));
}

std::string flag_term(const FlagDescription& flag) {
  std::vector<std::string> names;
  if (!flag.argument.empty()) names.push_back("\\fI" + roff(flag.argument) + "\\fR");
  for (const std::string& name : flag.names) names.push_back("\\fB" + roff(name) + "\\fR");
  std::string term = join(names, ", ");
  if (!flag.value.empty() && !flag.names.empty()) term += " \\fI" + roff(flag.value) + "\\fR";
  return term;
}

// The flags under the headings that --help has.
std::string options(const VerbDescription& verb) {
  std::string out, group;
  for (const FlagDescription& flag : verb.flags) {
    if (out.empty()) out += ".SH OPTIONS\n";
    if (flag.group != group) out += ".SS " + roff(flag.group) + "\n";
    group = flag.group;
    out += item(flag_term(flag), flag.help);
  }
  return out;
}

std::string exit_status() {
  std::string out = ".SH EXIT STATUS\n";
  for (const ExitCode& exit : kExitCodes)
    out += item("\\fB" + roff(exit.code) + "\\fR", exit.meaning);
  return out;
}

std::string environment() {
  std::string out = ".SH ENVIRONMENT\n";
  for (const EnvironmentVariable& one : kEnvironmentVariables)
    out += item("\\fB" + roff(one.names) + "\\fR", one.meaning);
  return out;
}

std::string topics() {
  std::string out = ".SH TOPICS\n";
  for (const HelpTopic& topic : help_topics())
    out += item("\\fBgantrain help " + roff(topic.name) + "\\fR", topic.about);
  return out;
}

constexpr const char* kFiles = R"(.SH FILES
.TP
\fIruns/00000\-PRESET\-DATA\-BATCH/\fR
One run: configuration, log, statistics, samples, models, states, report. The link
\fIruns/latest\fR leads to the newest.
)";

constexpr const char* kExamples = R"(.SH EXAMPLES
.TP
Train on built\-in pictures:
\fBgantrain \-\-preset dcgan\-tiny\fR
.TP
Train on eight devices; the same command again resumes:
\fBgantrain \-\-nproc 8 \-\-preset stylegan2 \-\-data ~/photos \-\-run\-dir runs/photos\fR
.TP
Draw pictures:
\fBgantrain generate \-\-model runs/latest \-\-seeds 0\-63 \-o grid.png\fR
)";

std::string main_page() {
  std::string out = heading("gantrain", "train GANs on one or many devices");
  out +=
      ".SH SYNOPSIS\n.B gantrain\n[\\fBtrain\\fR] [\\fIoptions\\fR]\n.br\n.B gantrain\n"
      "\\fIcommand\\fR [\\fIoptions\\fR]\n.SH DESCRIPTION\n" +
      roff(
          "Starts one process per device, trains a built-in kind of network, survives what "
          "clusters do to jobs, and leaves pictures, curves and weights behind.") +
      "\n.SH COMMANDS\n";
  std::vector<std::string> pages;
  for (const Verb& verb : verbs())
    out += item(std::string("\\fB") + verb.name + "\\fR", verb.about);
  for (const VerbDescription& verb : describe_verbs(verbs())) {
    pages.push_back("\\fB" + roff(page_name(verb)) + "\\fR(1)");
    if (verb.name == "train") out += options(verb);
  }
  out += topics() + environment() + kFiles + exit_status() + kExamples;
  return out + ".SH SEE ALSO\n" + join(pages, ",\n") + "\n";
}

std::string verb_page(const VerbDescription& verb) {
  std::string about = verb.about;  // without the full stop, which NAME does not have
  if (ends_with(about, ".")) about.pop_back();
  std::string out = heading(page_name(verb), about.substr(0, about.find(". ")));
  out += fmt::format(".SH SYNOPSIS\n.B gantrain {}\n[\\fIoptions\\fR]", roff(verb.name));
  for (const FlagDescription& flag : verb.flags) {
    if (!flag.argument.empty()) out += " [\\fI" + roff(flag.argument) + "\\fR]";
  }
  out += "\n.SH DESCRIPTION\n" + roff(verb.about) + "\n" + options(verb) + exit_status();
  return out + ".SH SEE ALSO\n\\fBgantrain\\fR(1)\n";
}

}  // namespace

std::string page_name(const VerbDescription& verb) {
  return "gantrain-" + join(split(verb.name, ' '), "-");
}

std::string man_page(const std::string& verb) {
  if (verb.empty() || verb == "gantrain") return main_page();
  std::vector<std::string> names;
  for (const VerbDescription& known : describe_verbs(verbs())) {
    if (known.name == verb || page_name(known) == verb) return verb_page(known);
    names.push_back(known.name);
  }
  const std::string hint = did_you_mean(verb, names);
  fail(Exit::kUsage,
       "--man {}: no such command{}",
       verb,
       hint.empty() ? "; there is " + join(names, ", ") : hint);
}

}  // namespace gantrain
