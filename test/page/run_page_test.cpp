// SPDX-License-Identifier: Apache-2.0
#include "page/run_page.h"

#include <string>

#include "page/charts.h"
#include "support/catch.h"
#include "support/made_run.h"
#include "support/temporary_folder.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostBytes = 5'000'000;

// What the page says first, below the run's name.
std::string beginning(const std::string& page) {
  const size_t start = page.find("</h1>");
  return page.substr(start, page.find("</div>", start) - start);
}

}  // namespace

TEST_CASE("ReportShowsPicturesCurvesAndSettings") {
  const TemporaryFolder folder;
  const fs::path run = folder.path() / "00007-dcgan-b64";
  make_run(run);
  write_run_page(run);
  const std::string page = read_file(run / "report.html");
  CHECK(contains(page, "<h1>00007-dcgan-b64</h1>"));
  CHECK(contains(page, "<dd>done 200 kimg</dd>"));
  CHECK(contains(page, "<dd>200 of 200 kimg</dd>"));
  CHECK(contains(page, "<dd>500 images/s</dd>"));
  CHECK(contains(page, "<dd>dcgan-tiny</dd>"));
  CHECK(contains(page, "<dt>SWD, mean of all scales</dt><dd>50 at 0 kimg</dd>"));
  CHECK(contains(page, "alt=\"Real pictures\" src=\"data:image/png;base64,iVBORw0KGgo"));
  // The latest picture is the time-lapse's last one, and is seen without the script.
  CHECK(contains(page, "<img hidden alt=\"100 kimg\""));
  CHECK(contains(page, "<img alt=\"200 kimg\""));
  CHECK(!contains(page, "alt=\"Generated pictures\""));
  CHECK(contains(page, "type=\"range\" aria-label=\"kimg\" min=\"0\" max=\"1\" value=\"1\""));
  CHECK(contains(page, "2 grids; 1 more are in the folder"));  // the broken one
  CHECK(contains(page, "<h3>Losses</h3>"));
  CHECK(contains(page, "Dashed at 0.69"));
  CHECK(contains(page, "<h3>Loss: new one</h3>"));
  CHECK(
      contains(page, "<b>Loss: new one</b> <code>Loss/new_one</code> Mean over each tick. Last: "));
  // One value is no curve.
  const size_t swd = page.find("<h3>Sliced Wasserstein distance (SWD, times 1000)</h3>");
  REQUIRE(swd != std::string::npos);
  CHECK(page.find("The only value so far: 50, at 0 kimg.", swd) < page.find("</figure>", swd));
  CHECK(page.find("<svg", swd) > page.find("</figure>", swd));
  CHECK(contains(page, "<title>resumed at 100 kimg</title>"));
  CHECK(contains(page, "<pre>gantrain generate --model /runs/a</pre>"));
  CHECK(contains(page, "<td>flag --kimg</td>"));
  CHECK(contains(page, "<dt>device</dt><dd>cpu</dd>"));
  // Bookkeeping is folded, after everything else of the curves.
  CHECK(page.find("<h3>Traffic between ranks (bytes)</h3>") > page.find("<summary>Bookkeeping"));
  CHECK(page.find("<h3>Losses</h3>") < page.find("<summary>Bookkeeping"));
}

// A narrow screen shows what has these classes behind the pictures, how a run failed before them.
TEST_CASE("FactsAndWhatIsNextCanStandBehindThePictures") {
  const TemporaryFolder folder;
  make_run(folder.path());
  std::string page = render_run_page(folder.path());
  CHECK(contains(page, "<div class=\"facts\">\n<dl>"));
  CHECK(contains(page, "<div class=\"next\">\n<h2>Next</h2>"));
  write_file(folder.path() / "STATUS", "failed with exit code 6: x\n");
  CHECK(!contains(render_run_page(folder.path()), "class=\"next\""));
}

TEST_CASE("WithoutATimeLapseTheLatestPictureIsShown") {
  const TemporaryFolder folder;
  make_run(folder.path());
  fs::remove(folder.path() / "samples/fakes000100.png");
  const std::string page = render_run_page(folder.path());
  CHECK(contains(page, "alt=\"Generated pictures\" src=\"data:image/png"));
  CHECK(!contains(page, "type=\"range\""));
}

TEST_CASE("TextOfARunIsEscaped") {
  const TemporaryFolder folder;
  const fs::path run = folder.path() / "<img src=x>&\"'";
  make_run(run, {.status = "failed with exit code 3: <script>bad</script> \x01\xff"});
  const std::string page = render_run_page(run);
  CHECK(contains(page, "<h1>&lt;img src=x&gt;&amp;&quot;&#39;</h1>"));
  CHECK(contains(page, "&lt;script&gt;alert(1)&lt;/script&gt;"));
  CHECK(contains(page, "&lt;script&gt;bad&lt;/script&gt; \uFFFD\uFFFD"));
  CHECK(contains(page, "the file &lt;i&gt;x&lt;/i&gt; is slow"));
  CHECK(contains(page, "--data &#39;&lt;b&gt;&#39;"));
  CHECK(!contains(page, "<script>alert"));
  CHECK(!contains(page, "<script>bad"));
  CHECK(!contains(page, "<i>"));
}

TEST_CASE("ReportAsksForNothingFromOutside") {
  const TemporaryFolder folder;
  make_run(folder.path());
  const std::string page = render_run_page(folder.path());
  CHECK(!contains(page, "http:"));
  CHECK(!contains(page, "https:"));
  CHECK(contains(page, "default-src 'none'; img-src data:;"));
  for (const std::string attribute : {"src=\"", "href=\""}) {
    for (size_t at = page.find(attribute); at != std::string::npos;
         at = page.find(attribute, at + 1)) {
      CHECK(page.compare(at + attribute.size(), 5, "data:") == 0);
    }
  }
}

TEST_CASE("ReportOfAnEmptyFolderIsAPage") {
  const TemporaryFolder folder;
  const std::string page = render_run_page(folder.path());
  CHECK(contains(page, "<!DOCTYPE html>"));
  CHECK(contains(page, "</html>"));
  CHECK(contains(beginning(page), "still young"));
  CHECK(!contains(page, "<h2>"));
}

TEST_CASE("ReportIsMadeOfWhatIsWhole") {
  const TemporaryFolder folder;
  make_run(folder.path(), {.status = "failed with exit code 6: rank 0 died of signal 9 (SIGKILL)"});
  fs::create_directories(folder.path() / "errors");
  for (const char* name :
       {"config.json", "env.json", "errors/rank0.json", "model-000000.safetensors"}) {
    for (const std::string text :
         {"", "{", "[]", "7", "{\"values\":[1]}", "{\"message\":{\"extraInfo\":3}}", "\xff\xff"}) {
      CAPTURE(name, text);
      write_file(folder.path() / name, text);
      const std::string page = render_run_page(folder.path());
      CHECK(contains(page, "<h3>Losses</h3>"));
      CHECK(contains(beginning(page), "<b>killed</b>"));
    }
  }
}

TEST_CASE("ReportOfAFailedRunNamesRankPhaseIterationHostAndTheWayOn") {
  const TemporaryFolder folder;
  make_run(folder.path(), {.status = "failed with exit code 6: rank 1 (nodeb) exited with code 6"});
  fs::create_directories(folder.path() / "errors");
  write_file(folder.path() / "errors" / "rank0.json",
             R"({"message":{"message":"rank 0 lost its peer","extraInfo":{"rank":0}}})");
  write_file(
      folder.path() / "errors" / "rank1.json",
      R"({"message":{"message":"rank 1 died <here>","extraInfo":{"rank":1,"host":"nodeb",)"
      R"("phase":"D phase","iteration":4711,"kimg":75.4,"exit_code":6,"signal":null,)"
      R"("first_cause":true,"last_state":"/runs/a/state-000064.pt",)"
      R"("resume":"gantrain --run-dir a","py_callstack":"rank 1 died <here>\nmain+0x12"}}})");
  const std::string page = render_run_page(folder.path());
  CHECK(contains(beginning(page), "<b>failed</b>: rank 1 (nodeb)"));
  CHECK(contains(page, "<h2>How it ended</h2>"));
  for (const char* cell : {"1 (first cause)",
                           "nodeb",
                           "D phase",
                           "4711",
                           "75.4",
                           "exit code 6",
                           "rank 1 died &lt;here&gt;"}) {
    CAPTURE(cell);
    CHECK(contains(page, std::string("<td>") + cell + "</td>"));
  }
  CHECK(page.find("1 (first cause)") < page.find("rank 0 lost its peer"));
  CHECK(contains(page, "<code>/runs/a/state-000064.pt</code>"));
  CHECK(contains(page, "<pre>gantrain --run-dir a</pre>"));
  CHECK(contains(page, "<pre>main+0x12</pre>"));
}

TEST_CASE("ReportBeginsWithTheVerdict") {
  const TemporaryFolder folder;
  const auto verdict_of = [&](const MadeRun& made) {
    make_run(folder.path(), made);
    return beginning(render_run_page(folder.path()));
  };
  CHECK(contains(verdict_of({}), "<b>no failure found</b>: whether quality rises is not known"));
  CHECK(contains(verdict_of({.distinctness = 0.02}), "<b>collapsed</b>: for 3 measurements"));
  const std::string infinite = R"({"Progress/kimg":{"mean":204},"Loss/G/loss":{"mean":null}})"
                               "\n";
  CHECK(contains(verdict_of({.status = "running", .last_rows = infinite}),
                 "<b>diverged</b>: Loss/G/loss is not finite at 204 kimg"));
  CHECK(contains(verdict_of({.status = "failed with exit code 137: the launcher (vm, pid 7) died"}),
                 "<b>killed</b>: the launcher (vm, pid 7) died"));
}

TEST_CASE("ARunThatIsAtWorkSaysHowLongItTakes") {
  const TemporaryFolder folder;
  make_run(folder.path(), {.status = "running", .ticks = 25});
  const std::string page = render_run_page(folder.path());
  CHECK(contains(page, "<dt>To go</dt><dd>about 3m20s</dd>"));
  CHECK(!contains(page, "<h2>Next</h2>"));
}

TEST_CASE("ARunningRunWhoseLockIsFreeWasKilled") {
  const TemporaryFolder folder;
  make_run(folder.path(), {.status = "running"});
  write_file(folder.path() / ".lock", "");
  const std::string page = render_run_page(folder.path());
  CHECK(contains(beginning(page), "<b>killed</b>"));
  CHECK(contains(beginning(page), "Rule: free lock."));
  CHECK(!contains(page, "<dt>To go</dt>"));
}

TEST_CASE("RowsOfAConditionalModelAreNamed") {
  const TemporaryFolder folder;
  make_run(folder.path());
  CHECK(!contains(render_run_page(folder.path()), "<div class=\"rows\">"));
  const std::string header =
      R"({"__metadata__":{"gantrain.classes":"[{\"name\":\"cat\"},{\"name\":\"d<o>g\"}]"}})";
  std::string length(8, '\0');
  length[0] = static_cast<char>(header.size());
  write_file(folder.path() / "model-000200.safetensors", length + header);
  CHECK(contains(render_run_page(folder.path()),
                 "<div class=\"rows\"><span>cat</span><span>d&lt;o&gt;g</span></div>"));
}

TEST_CASE("ReportOfTwoHundredLargeGridsStaysBelowFiveMegabytes") {
  const TemporaryFolder folder;
  make_run(folder.path(), {.ticks = 5000});
  const fs::path samples = folder.path() / "samples";
  // Nothing takes more in the page than what its limits just let through as it is.
  const std::string frame = encode_png(noise_picture(380, 285, 1), 1);
  const std::string still = encode_png(noise_picture(900, 675, 1), 1);
  for (int i = 1; i < 200; ++i)
    write_file(samples / ("fakes" + std::to_string(100000 + 100 * i) + ".png"), frame);
  for (const char* name : {"fakes120000.png", "latest.png", "reals.png"})
    write_file(samples / name, still);
  std::string log;
  for (int i = 0; i < 5000; ++i)
    log += "2026-01-12 09:00:02 warning " + std::string(1000, '<') + "\n";
  write_file(folder.path() / "log.txt", log);
  EmbeddedPictures store;
  const std::string page = render_run_page(folder.path(), store);
  CHECK(page.size() < kMostBytes);
  CHECK(page.size() > 2'500'000);
  CHECK(contains(page, "more are in the folder samples, left out here"));
  // Nothing of the pictures is lost in the next page, which takes them from the store.
  const std::string again = render_run_page(folder.path(), store);
  CHECK(again.size() == page.size());
}

TEST_CASE("APageThatCannotBeWrittenEndsNothing") {
  const TemporaryFolder folder;
  make_run(folder.path());
  fs::create_directory(folder.path() / "report.html");
  PageWriter writer;
  writer.write(folder.path());
  CHECK(fs::is_directory(folder.path() / "report.html"));
}

TEST_CASE("ThePageOfARunAtWorkIsWrittenAtFirstAndThenSeldom") {
  const TemporaryFolder folder;
  make_run(folder.path());
  PageWriter writer;
  CHECK(writer.is_due(0));
  writer.write_if_due(folder.path(), 0);
  CHECK(fs::exists(folder.path() / "report.html"));
  fs::remove(folder.path() / "report.html");
  writer.write_if_due(folder.path(), 0);
  CHECK(!fs::exists(folder.path() / "report.html"));
  CHECK(writer.is_due(1e18));
}

TEST_CASE("CurvesOfOneScaleShareAChartAndEachHasAMeaning") {
  const Curve curve = {{0, 1}, {1, 2}};
  const std::vector<Chart> charts = charts_of({{"Loss/D/loss", curve},
                                               {"Loss/G/loss", curve},
                                               {"Loss/other", curve},
                                               {"Progress/kimg", curve}});
  REQUIRE(charts.size() == 2);
  CHECK(charts[0].curves.size() == 2);
  CHECK(charts[0].curves[0].name == "Loss/G/loss");
  CHECK(charts[0].curves[0].label == "G's loss");
  CHECK(charts[1].title == "Loss: other");
  for (const Chart& chart : charts) {
    for (const ExplainedCurve& one : chart.curves) CHECK(one.meaning.back() == '.');
  }
}

TEST_CASE("NamesOfCurvesAreReadAsWords") {
  CHECK(label_of("Loss/scores/real") == "Score of real pictures");
  CHECK(label_of("swd/swd_32") == "SWD at 32 pixels");
  CHECK(label_of("AMP/D/skipped") == "Steps of D");
  CHECK(label_of("fid (50000 fakes)") == "fid (50000 fakes)");
  CHECK(label_of("Toy/odd_one") == "Toy: odd one");
  const Curve curve = {{0, 1}, {1, 2}};
  const std::vector<Chart> charts = charts_of(
      {{"Comm/D main/bytes", curve}, {"Comm/G main/bytes", curve}, {"Weights/G/moved", curve}});
  REQUIRE(charts.size() == 2);
  CHECK(charts[0].title == "Movement of weights");
  CHECK(charts[0].bookkeeping);
  REQUIRE(charts[1].curves.size() == 2);
  CHECK(charts[1].curves[0].label == "Bytes of D main");
}

}  // namespace gantrain
