// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "config/config.h"
#include "config/schema.h"

namespace gantrain {

// A key and the values that are tried for it, as they were typed: "auto*0.25" is a quarter of what
// the run would have without it.
struct Tried {
  std::string key;
  std::vector<std::string> values;
};

template <class Field>
void fields(Tried& t, Field&& field) {
  field("key", t.key);
  field("values", t.values);
}

// Reads the words of --try: "gamma=auto*{0.25,1,4}", "G.lr=0.001,0.002". A factor in braces stands
// for one value each; a shell that expands braces gives these as words of their own, and words of
// one key belong together. Throws UserError(kUsage) that names the word.
std::vector<Tried> parse_tries(const std::vector<std::string>& words);

// What a candidate of a race has that the others do not: values of keys.
struct Candidate {
  std::string name;               // for its run folder: "2-gamma-0.1"
  std::vector<std::string> sets;  // "RECIPE.gamma=0.1", as --set takes them

  std::string text() const;  // "RECIPE.gamma 0.1, G.adam.lr 0.002"
};

template <class Field>
void fields(Candidate& c, Field&& field) {
  field("name", c.name);
  field("set", c.sets);
}

// Every combination of the values, the last key's changing fastest. `config` is the completed
// configuration of the run without them; the keys are full ones. Throws UserError(kUsage) for
// values that a key does not take, one that is there twice, a factor of what is no number or not
// yet known, and fewer than two or more than kMostCandidates candidates.
inline constexpr size_t kMostCandidates = 64;
std::vector<Candidate> make_candidates(const std::vector<Tried>& tries, const Config& config);

}  // namespace gantrain
