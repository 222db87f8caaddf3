// SPDX-License-Identifier: Apache-2.0
#include "install_help.h"

#include "completion.h"
#include "man_page.h"
#include "util/error.h"
#include "util/file.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

void write(const fs::path& path, const std::string& text) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) fail(Exit::kDisk, "{}: {}", path.parent_path().string(), error.message());
  write_file(path, text);
}

}  // namespace

void install_help(const fs::path& prefix) {
  const fs::path share = prefix / "share";
  write(share / "bash-completion/completions/gantrain", completion_script("bash"));
  write(share / "zsh/site-functions/_gantrain", completion_script("zsh"));
  write(share / "fish/vendor_completions.d/gantrain.fish", completion_script("fish"));
  write(share / "man/man1/gantrain.1", man_page(""));
  for (const VerbDescription& verb : describe_verbs())
    write(share / "man/man1" / (page_name(verb) + ".1"), man_page(verb.name));
}

}  // namespace gantrain
