// SPDX-License-Identifier: Apache-2.0
#include "augment/ada_options.h"

#include <type_traits>

namespace gantrain {

void choose_transforms(Config& config) {
  const std::string pipe = text_of(config.get("ada.pipe"));
  AugmentOptions of_pipe = augment_pipe(pipe);
  fields(of_pipe, [&](std::string_view name, auto& value, const Check&, std::string_view) {
    const std::string key = "augment." + std::string(name);
    using Member = std::remove_reference_t<decltype(value)>;
    const Json wanted = Value<Member>::to_json(value);
    if (config.origin(key) != "default" || config.get(key) == wanted) return;
    config.set(key, wanted, "auto (ada.pipe " + pipe + ")");
  });
}

}  // namespace gantrain
