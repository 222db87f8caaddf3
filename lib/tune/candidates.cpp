// SPDX-License-Identifier: Apache-2.0
#include "tune/candidates.h"

#include <algorithm>
#include <optional>

#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

constexpr const char* kExpected =
    "KEY=VALUE,VALUE or KEY=auto*{FACTOR,FACTOR} is expected, as in gamma=auto*{0.25,1,4}";

[[noreturn]] void refuse_try(const std::string& word, const std::string& why) {
  fail(Exit::kUsage, "--try {}: {}", word, why);
}

// The parts between commas that stand outside of brackets.
std::vector<std::string> split_outside_brackets(const std::string& word, const std::string& text) {
  std::vector<std::string> parts(1);
  int64_t depth = 0;
  for (const char c : text) {
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (depth < 0) break;
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  if (depth != 0) refuse_try(word, "its brackets do not match");
  return parts;
}

// "auto*{0.25,1}" becomes "auto*0.25" and "auto*1"; other parts stay.
void add_values(const std::string& word,
                const std::string& part,
                std::vector<std::string>& values) {
  const size_t star = part.rfind("*{");
  if (star == std::string::npos || !ends_with(part, "}")) {
    if (trim(part).empty()) refuse_try(word, kExpected);
    values.push_back(trim(part));
    return;
  }
  for (const std::string& factor : split(part.substr(star + 2, part.size() - star - 3), ',')) {
    if (!parse_double(trim(factor))) refuse_try(word, trim(factor) + " is no factor");
    values.push_back(trim(part.substr(0, star)) + "*" + trim(factor));
  }
}

// The factor behind the last star, where there is a number.
std::optional<double> factor_of(const std::string& value) {
  const size_t star = value.rfind('*');
  return star == std::string::npos ? std::nullopt : parse_double(trim(value.substr(star + 1)));
}

// What a typed value is in a run: a factor is multiplied, and "auto" is what `config` has.
std::string resolved(const std::string& key, const std::string& value, const Config& config) {
  const auto factor = factor_of(value);
  const std::string base = factor ? trim(value.substr(0, value.rfind('*'))) : value;
  const std::string own = text_of(config.get(key));
  if (base != "auto" && !factor) return value;
  if (base == "auto" && own == "auto") {
    refuse_try(key + "=" + value,
               "what auto is will be known only when the run begins; give the values themselves");
  }
  if (!factor) return own;
  const auto number = Value<Scheduled>::from_text(base == "auto" ? own : base);
  if (!number) {
    refuse_try(key + "=" + value,
               fmt::format("{} is no number, so it has no multiples", base == "auto" ? own : base));
  }
  return text_of(Value<Scheduled>::to_json(scaled(*number, *factor)));
}

// What a file's name may hold of a value.
std::string for_a_name(const std::string& text) {
  std::string name;
  for (const char c : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-';
    if (plain) name += c;
  }
  constexpr size_t kMost = 24;
  return name.substr(0, kMost);
}

// The last word of a key: "gamma" of "RECIPE.gamma"; of a player's rate also the player.
std::string short_key(const std::string& key) {
  const std::vector<std::string> parts = split(key, '.');
  return parts.size() > 2 ? parts.front() + "." + parts.back() : parts.back();
}

}  // namespace

std::vector<Tried> parse_tries(const std::vector<std::string>& words) {
  std::vector<Tried> tries;
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0) refuse_try(word, kExpected);
    const std::string key = word.substr(0, equals);
    auto at = std::ranges::find(tries, key, &Tried::key);
    if (at == tries.end()) at = tries.insert(at, Tried{key, {}});
    for (const std::string& part : split_outside_brackets(word, word.substr(equals + 1)))
      add_values(word, part, at->values);
  }
  return tries;
}

std::string Candidate::text() const {
  std::vector<std::string> parts;
  for (const std::string& pair : sets) {
    const size_t equals = pair.find('=');
    parts.push_back(pair.substr(0, equals) + " " + pair.substr(equals + 1));
  }
  return join(parts, ", ");
}

std::vector<Candidate> make_candidates(const std::vector<Tried>& tries, const Config& config) {
  std::vector<Candidate> all(1);
  for (const Tried& tried : tries) {
    Config checked = config;
    if (!config.has(tried.key))
      checked.set(tried.key, tried.values.front(), "--try");  // refuses it
    std::vector<std::string> values;
    for (const std::string& typed : tried.values) {
      checked.set(tried.key, resolved(tried.key, typed, config), "--try");
      values.push_back(text_of(checked.get(tried.key)));
      if (std::ranges::count(values, values.back()) > 1)
        refuse_try(tried.key + "=" + typed, "that is " + values.back() + ", which is there twice");
    }
    std::vector<Candidate> next;
    for (const Candidate& before : all) {
      for (const std::string& value : values) {
        Candidate& one = next.emplace_back(before);
        one.name += fmt::format("-{}-{}", short_key(tried.key), for_a_name(value));
        one.sets.push_back(fmt::format("{}={}", tried.key, value));
      }
    }
    all = std::move(next);
    if (all.size() > kMostCandidates)
      fail(Exit::kUsage, "--try: {} candidates; at most {} race", all.size(), kMostCandidates);
  }
  if (all.size() < 2) fail(Exit::kUsage, "--try: nothing to choose from; {}", kExpected);
  for (size_t i = 0; i < all.size(); ++i) all[i].name = fmt::format("{}{}", i + 1, all[i].name);
  return all;
}

}  // namespace gantrain
