// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "page/charts.h"
#include "page/html.h"
#include "support/catch.h"

namespace gantrain {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

size_t count_of(const std::string& text, char c) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), c));
}

// Data of the first line's path.
std::string path_of(const std::string& svg) {
  const size_t start = svg.find("d=\"", svg.find("line0")) + 3;
  return svg.substr(start, svg.find('"', start) - start);
}

TEST_CASE("AxisMarksAreRoundNumbersInside") {
  CHECK(axis_marks(0, 10, 5) == std::vector<double>{0, 2, 4, 6, 8, 10});
  CHECK(axis_marks(-1.2, 1.2, 4) == std::vector<double>{-1, 0, 1});
  CHECK(!std::signbit(axis_marks(0, 10, 5)[0]));
  CHECK(axis_marks(3, 3, 4).empty());
  CHECK(axis_marks(0, kNan, 4).empty());
  const double high = GENERATE(1e-9, 0.3, 7.0, 25000.0, 1e12);
  const std::vector<double> marks = axis_marks(0, high, 5);
  CHECK(marks.size() >= 3);
  CHECK(marks.size() <= 7);
  CHECK(marks.back() <= high * (1 + 1e-9));
}

TEST_CASE("AGapStaysAGap") {
  const std::string path =
      path_of(line_chart({{"x", {{0, 1}, {1, 2}, {2, kNan}, {3, 1}, {4, 2}}}}));
  CHECK(count_of(path, 'M') == 2);
  CHECK(count_of(path, 'L') == 2);
}

TEST_CASE("ChartsOfOddCurvesHoldNoNan") {
  const auto check = [](const Curve& curve) {
    const std::string svg = line_chart({{"x", curve}});
    CHECK(svg.find("nan") == std::string::npos);
    CHECK(svg.find("inf") == std::string::npos);
    CHECK(svg.find("</svg>") != std::string::npos);
  };
  check({});
  check({{5, 1}});
  check({{0, 0}, {1, 0}});
  check({{0, kNan}, {1, kNan}});
  check({{0, -1e300}, {1, 1e300}});
  check({{0, 1e-300}, {1, std::numeric_limits<double>::infinity()}});
}

TEST_CASE("LongCurvesAreThinned") {
  Curve curve;
  for (int i = 0; i < 100000; ++i) curve.emplace_back(i, std::sin(i / 1000.0));
  CHECK(line_chart({{"x", curve}}).size() < 20000);
}

TEST_CASE("ChartsBeginAtKimg0") {
  const std::string svg = line_chart({{"x", {{100, 1}, {200, 3}}}});
  CHECK(svg.find("data-x=\"0 200\" data-y=\"1 3\"") != std::string::npos);
}

TEST_CASE("BandsWidenAChartButNeverFlattenIt") {
  const std::vector<ExplainedCurve> lines = {{"x", {{0, 1}, {10, 2}}}};
  const auto drawn = [&](const Band& band) { return line_chart(lines, {{band}, {}}); };
  CHECK(drawn({2.5, 2.5}).find("class=\"healthy\"") != std::string::npos);
  CHECK(drawn({2.5, 2.5}).find("data-y=\"1 2.5\"") != std::string::npos);
  CHECK(drawn({100, 100}).find("class=\"healthy\"") == std::string::npos);
  CHECK(drawn({100, 100}).find("data-y=\"1 2\"") != std::string::npos);
  const double ever = std::numeric_limits<double>::infinity();
  CHECK(drawn({1.5, ever}).find("class=\"band\"") != std::string::npos);
  CHECK(drawn({1.5, ever}).find("inf") == std::string::npos);
}

TEST_CASE("ResumesAreMarkedInsideTheChart") {
  const std::string svg = line_chart({{"x", {{0, 1}, {10, 2}}}}, {{}, {5, 20}});
  CHECK(svg.find("resumed at 5 kimg") != std::string::npos);
  CHECK(svg.find("resumed at 20 kimg") == std::string::npos);
}

TEST_CASE("NamesAreEscaped") {
  CHECK(escape_html(R"(<a href="x">'&')") == "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;");
  CHECK(line_chart({{"<script>", {{0, 1}, {1, 2}}}}).find("<script>") == std::string::npos);
}

}  // namespace
}  // namespace gantrain
