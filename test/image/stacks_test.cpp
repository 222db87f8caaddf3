// SPDX-License-Identifier: Apache-2.0
// Pictures of 16 bits and of up to 16 channels: PNG, .npy, TIFF, and what is done with them.
#include <cstring>
#include <limits>

#include "image/image.h"
#include "image/resize.h"
#include "support/catch.h"
#include "support/pictures.h"

namespace gantrain {

namespace {

using Channels = std::vector<int64_t>;

// (3701 y + 1103 x + 5309 c) mod 65536, or (37 y + 11 x + 53 c) mod 256.
Image pattern(int64_t width, int64_t height, int64_t channels, int64_t depth) {
  std::vector<uint16_t> words;
  std::vector<uint8_t> bytes;
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      for (int64_t c = 0; c < channels; ++c) {
        words.push_back(static_cast<uint16_t>(3701 * y + 1103 * x + 5309 * c));
        bytes.push_back(static_cast<uint8_t>(37 * y + 11 * x + 53 * c));
      }
    }
  }
  Image image{width, height, channels, bytes, depth, is_stack(channels)};
  if (depth == 16) {
    image.pixels.resize(2 * words.size());
    std::memcpy(image.pixels.data(), words.data(), image.pixels.size());
  }
  return image;
}

std::vector<uint16_t> words(const Image& image) {
  std::vector<uint16_t> all(image.pixels.size() / 2);
  std::memcpy(all.data(), image.pixels.data(), image.pixels.size());
  return all;
}

Image decode(const std::string& bytes, int64_t depth) {
  Image image;
  decode_image(bytes, "a", {.depth = depth}, image);
  return image;
}

template <class Number>
std::string bytes_of(const std::vector<Number>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)};
}

std::string from_hex(const std::string& text) {
  std::string bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2)
    bytes += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
  return bytes;
}

void decode_any(std::string_view bytes) {
  Image image;
  decode_image(bytes, "a", {.depth = 16}, image);
}

// What Pillow 13 and tifffile write of pattern(7, 6, channels, depth).
struct TiffCase {
  std::string what;
  int64_t channels;
  int64_t depth;
  std::string hex;
};

const std::vector<TiffCase>& tiffs() {
  static const std::vector<TiffCase> all = {
      {"RGB, LZW with differences",
       3,
       8,
       "49492a0034000000800006a6a05c160d07844184a5a47c261d08251fd690f8a02cdea46cc561e9464bfa350e"
       "5cbb8471f84c04000b000001030001000000070000000101030001000000060000000201030003000000be00"
       "0000030103000100000005000000060103000100000002000000110104000100000008000000150103000100"
       "00000300000016010300010000000600000017010400010000002b0000001c01030001000000010000003d01"
       "0300010000000200000000000000080008000800"},
      {"RGB, PackBits",
       3,
       8,
       "49492a008c0000001400356a0b4075164b8021568b2c6196376ca14277ac14255a8f30659a3b70a5467bb051"
       "86bb5c91c6679cd1144a7fb4558abf6095ca6ba0d576abe081b6eb8cc1f6146fa4d97aafe485baef90c5fa9b"
       "d005a6db10b1e61b1494c9fe9fd409aadf14b5ea1fc0f52acb0035d60b4014b9ee23c4f92ecf0439da0f44e5"
       "1a4ff0255afb30650a0000010300010000000700000001010300010000000600000002010300030000000a01"
       "0000030103000100000005800000060103000100000002000000110104000100000008000000150103000100"
       "0000030000001601030001000000060000001701040001000000840000001c01030001000000010000000000"
       "0000080008000800"},
      {"grey of 16 bits, LZW",
       1,
       16,
       "49492a006a00000080000004f0227810ed060f0228b0ab6832750731024130b98836b10f800484f143a83839"
       "10a204ad7148985c75193106c5f15ab85efd19930709b1e3a8803922b5072231f1c884c123040965f27ab8a6"
       "492426098e7280d8aa852cb50ba2331404000900000103000100000007000000010103000100000006000000"
       "0201030001000000100000000301030001000000050000000601030001000000010000001101040001000000"
       "080000001601030001000000060000001701040001000000610000001c010300010000000100000000000000"},
      {"five channels, Deflate with differences",
       5,
       16,
       "49492a000800000010000001040001000000070000000101040001000000060000000201030005000000ce00"
       "00000301030001000000080000000601030001000000010000000e0102000100000000000000110104000100"
       "0000f00000001501030001000000050000001601040001000000060000001701040001000000560000001a01"
       "050001000000d80000001b01050001000000e00000001c010300010000000100000028010300010000000100"
       "00003d01030001000000020000005201030004000000e8000000000000001000100010001000100001000000"
       "0100000001000000010000000000000000000000789c6360d82b52a5696ef725c89f857c58ca67a4fcde7c8d"
       "4f662225a6bc92596e98e2a6187d2f9f1253e2b5651c6e864ccb0caea3c4942b9613fdfc92b92b4ef450628a"
       "a7075bece1c28636dbd994980200508a51fa"},
      {"five pages",
       5,
       16,
       "49492a00080000000d0000010400010000000700000001010400010000000600000002010300010000001000"
       "00000301030001000000010000000601030001000000010000000e0102000100000000000000110104000100"
       "0000c00000001501030001000000010000001601040001000000060000001701040001000000540000001a01"
       "050001000000aa0000001b01050001000000b200000028010300010000000100000064020000010000000100"
       "0000010000000100000000000000000000004f049e08ed0c3c118b15da19750ec4121317621bb11f00244f28"
       "ea1c39218825d729262e7532c4365f2bae2ffd334c389b3cea403945d439233e7242c146104b5f4fae534948"
       "984ce75036558559d45d2362bd140c195b1daa21f925482a972e32238127d02b1f306e34bd380c3da731f635"
       "453a943ee3423247814b1c406b44ba48094d5851a755f659914ee0522f577e5bcd5f1c646b68065d5561a465"
       "f369426e9172e0767a29c92d18326736b63a053f5443ef373e3c8d40dc442b497a4dc9516446b34a024f5153"
       "a057ef5b3e60d9542859775dc6611566646ab36e4e639d67ec6b3b708a74d978287dc3711276617ab07eff82"
       "4e879d8b373e8642d546244b734fc2531158ac4cfb504a559959e85d37628666215b705fbf630e685d6cac70"
       "fb749669e56d34728376d27a217f70830b785a7ca980f8844789968de5918086cf8a1e8f6d93bc970b9c5aa0"
       "f4524357925be15f30647f68ce6c6961b865076a566ea572f476437bde6f2d747c78cb7c1a816985b889537e"
       "a282f186408b8f8fde932d98c88c17916695b599049e53a2a2a63d9b8c9fdba32aa879acc8b017b50c000001"
       "0400010000000700000001010400010000000600000002010300010000001000000003010300010000000100"
       "0000060103000100000001000000110104000100000014010000150103000100000001000000160104000100"
       "0000060000001701040001000000540000001a01050001000000fa0200001b01050001000000020300002801"
       "030001000000010000000a030000010000000100000001000000010000000c00000104000100000007000000"
       "0101040001000000060000000201030001000000100000000301030001000000010000000601030001000000"
       "0100000011010400010000006801000015010300010000000100000016010400010000000600000017010400"
       "01000000540000001a01050001000000fa0200001b0105000100000002030000280103000100000001000000"
       "b0030000010000000100000001000000010000000c0000010400010000000700000001010400010000000600"
       "0000020103000100000010000000030103000100000001000000060103000100000001000000110104000100"
       "0000bc0100001501030001000000010000001601040001000000060000001701040001000000540000001a01"
       "050001000000fa0200001b010500010000000203000028010300010000000100000056040000010000000100"
       "000001000000010000000c000001040001000000070000000101040001000000060000000201030001000000"
       "1000000003010300010000000100000006010300010000000100000011010400010000001002000015010300"
       "01000000010000001601040001000000060000001701040001000000540000001a01050001000000fa020000"
       "1b01050001000000020300002801030001000000010000000000000001000000010000000100000001000000"},
      {"five planes, the highest byte first",
       5,
       16,
       "4d4d002a00000008000f01000004000000010000000701010004000000010000000601020003000000050000"
       "00c2010300030000000100010000010600030000000100010000010e00020000000100000000011100040000"
       "0005000000cc0115000300000001000500000116000400000001000000060117000300000005000000e0011a"
       "000500000001000000ea011b000500000001000000f2011c0003000000010002000001280003000000010001"
       "00000152000300000004000000fa00000000001000100010001000100000011000000164000001b80000020c"
       "0000026000540054005400540054000000010000000100000001000000010000000000000000000000000000"
       "00000000000000000000044f089e0ced113c158b19da0e7512c417131b621fb12400284f1cea2139258829d7"
       "2e26327536c42b5f2fae33fd384c3c9b40ea453939d43e23427246c14b104f5f53ae48494c9850e755365985"
       "5dd4622314bd190c1d5b21aa25f92a482e97233227812bd0301f346e38bd3d0c31a735f63a453e9442e34732"
       "4b81401c446b48ba4d09515855a759f64e9152e0572f5b7e5fcd641c686b5d06615565a469f36e42729176e0"
       "297a2dc9321836673ab63f05435437ef3c3e408d44dc492b4d7a51c946644ab34f02535157a05bef603e54d9"
       "59285d7761c666156a646eb3634e679d6bec703b748a78d97d2871c376127a617eb082ff874e8b9d3e374286"
       "46d54b244f7353c258114cac50fb554a59995de8623766865b215f7063bf680e6c5d70ac74fb69966de57234"
       "76837ad27f218370780b7c5a80a984f889478d9691e586808acf8f1e936d97bc9c0ba05a52f457435b925fe1"
       "6430687f6cce616965b86a076e5672a576f47b436fde742d787c7ccb811a856989b87e5382a286f18b408f8f"
       "93de982d8cc89117956699b59e04a253a6a29b3d9f8ca3dba82aac79b0c8b517"},
      {"tiles",
       2,
       16,
       "49492a0008000000100000010400010000000700000001010400010000000600000002010300020000001000"
       "10000301030001000000080000000601030001000000010000000e0102000100000000000000150103000100"
       "0000020000001a01050001000000ce0000001b01050001000000d60000001c01030001000000010000002801"
       "030001000000010000004201040001000000100000004301040001000000100000004401040001000000e000"
       "00004501040001000000c9000000520103000100000000000000000000000100000001000000010000000100"
       "00000000789c6360d82be2cfc223398f235af62dcf2a451bc19faadda21e5ab724a7eb3110014af98c948f08"
       "35aa0b8b5fd04e929637d8289f67c2a0b2d7c25f83c79618fdaf64961b5a2a7e33ed5075b5baae39c54e4def"
       "b153a99191fb11b3466f62f4c76bcb38acd3cf76f96bbccbc3c782d377b64d44e02b87e5a196aedf2289d17f"
       "c572a29fb2dd83a02227fdf0836e75d102de67e3e3fd6552d605676710a3dfd3832d76864f68e2f38025a966"
       "a19f335b239df2aec44e2c524e7a50468cfe51300a0612000017aa3d18"}};
  return all;
}

}  // namespace

TEST_CASE("PngKeepsSixteenBitsWhereTheyAreAskedFor") {
  const int64_t channels = GENERATE(1, 2, 3, 4);
  Image image = pattern(13, 9, channels, 16);
  image.stack = false;
  for (const std::string& png : {encode_png(image), encode_png(image, 0), encode_png(image, 9)}) {
    CHECK(image_info(png, "a").depth == 16);
    const Image back = decode(png, 16);
    CHECK(back.channels == channels);
    CHECK(back.depth == 16);
    CHECK(back.pixels == image.pixels);
    const Image rounded = decode(png, 8);
    CHECK(rounded.depth == 8);
    CHECK(rounded.pixels == in_depth(image, 8).pixels);
  }
  // The highest byte comes first in the file, and 8 bits are widened.
  const PngSpec two = {2, 1, 16, 0, false, {0x12, 0x34, 0xff, 0xfe}};
  CHECK(words(decode(write_png(two), 16)) == std::vector<uint16_t>{0x1234, 0xfffe});
  const PngSpec one = {2, 1, 8, 0, false, {0x12, 0xff}};
  CHECK(image_info(write_png(one), "a").depth == 8);
  CHECK(words(decode(write_png(one), 16)) == std::vector<uint16_t>{0x1212, 0xffff});
}

TEST_CASE("WideningIsUndoneByRounding") {
  Image all = {256, 1, 1, std::vector<uint8_t>(256)};
  for (size_t i = 0; i < 256; ++i) all.pixels[i] = static_cast<uint8_t>(i);
  const Image wide = in_depth(all, 16);
  CHECK(words(wide)[3] == 771);
  CHECK(in_depth(wide, 8).pixels == all.pixels);
}

TEST_CASE("NpyHoldsOneToSixteenChannels") {
  const int64_t channels = GENERATE(1, 2, 3, 5, 16);
  const int64_t depth = GENERATE(8, 16);
  const Image image = pattern(19, 18, channels, depth);
  const std::string npy = encode_npy(image);
  CHECK(npy.size() == 128 + image.pixels.size());
  const ImageInfo info = image_info(npy, "a");
  CHECK(info.width == 19);
  CHECK(info.height == 18);
  CHECK(info.channels == channels);
  CHECK(info.depth == depth);
  CHECK(info.stack == (channels != 1 && channels != 3));
  CHECK(decode(npy, depth).pixels == image.pixels);
  CHECK(image_info(npy.substr(0, 200), "a").channels == channels);  // the header is enough
  CHECK_THAT(input_error([&] { decode(npy.substr(0, npy.size() - 1), 16); }),
             Catch::StartsWith("a: broken .npy: "));
}

TEST_CASE("NpyIsReadInEveryOrderOfItsAxes") {
  const Image image = pattern(6, 5, 3, 8);
  std::string planes, columns;
  for (int64_t c = 0; c < 3; ++c) {
    for (int64_t i = 0; i < 30; ++i) planes += static_cast<char>(image.pixels[3 * i + c]);
    for (int64_t x = 0; x < 6; ++x) {
      for (int64_t y = 0; y < 5; ++y)
        columns += static_cast<char>(image.pixels[3 * (6 * y + x) + c]);
    }
  }
  CHECK(decode(npy_header("|u1", {3, 5, 6}) + planes, 8).pixels == image.pixels);
  std::string fortran = npy_header("|u1", {5, 6, 3}) + columns;
  fortran.replace(fortran.find("False"), 5, "True ");
  CHECK(decode(fortran, 8).pixels == image.pixels);
  // As short at both ends: the last one is C.
  CHECK(image_info(npy_header("|u1", {4, 9, 4}), "a").width == 9);
  CHECK(image_info(npy_header("|u1", {7, 9}), "a").channels == 1);
}

TEST_CASE("NpyOfFractionsGoesFromZeroToOne") {
  const std::vector<float> values = {0, 1, 0.5F, 1.0F / 65535};
  const Image image = decode(npy_header("<f4", {2, 2}) + bytes_of(values), 16);
  CHECK(words(image) == std::vector<uint16_t>{0, 65535, 32768, 1});
  const std::vector<double> doubles = {0.25, 0.75, 1, 0};
  CHECK(words(decode(npy_header("<f8", {2, 2}) + bytes_of(doubles), 16))[1] == 49151);
  const std::vector<uint16_t> halves = {0x3c00, 0x3800, 0, 0x0400};  // 1, 0.5, 0, 2^-14
  CHECK(words(decode(npy_header("<f2", {2, 2}) + bytes_of(halves), 16)) ==
        std::vector<uint16_t>{65535, 32768, 0, 4});
  const std::vector<uint16_t> swapped = {0x0100, 0xffff};
  CHECK(words(decode(npy_header(">u2", {1, 2}) + bytes_of(swapped), 16)) ==
        std::vector<uint16_t>{1, 65535});
  for (const auto& [value, said] : std::vector<std::pair<float, std::string>>{
           {std::numeric_limits<float>::quiet_NaN(), "a: value 2 is NaN; "},
           {1.5F, "a: value 2 is 1.5; "},
           {-0.25F, "a: value 2 is -0.25; "}}) {
    const std::string bytes = npy_header("<f4", {2, 2}) + bytes_of<float>({0, 0, value, 0});
    CHECK_THAT(input_error([&, text = bytes] { decode(text, 8); }), Catch::StartsWith(said));
  }
}

TEST_CASE("NpyThatIsNoPictureIsNamed") {
  const auto said = [](const std::string& header) {
    return input_error([&] { image_info(header, "a.npy"); });
  };
  CHECK(said(npy_header("<i8", {4, 4})) ==
        "a.npy: dtype <i8; pictures are uint8, uint16 or floating point from 0 to 1");
  CHECK(said(npy_header("|u1", {20, 20, 17})) ==
        "a.npy: shape (20, 20, 17): 17 channels, 1 to 16 are taken");
  CHECK_THAT(said(npy_header("|u1", {3})), Catch::StartsWith("a.npy: shape (3): "));
  CHECK_THAT(said(npy_header("|u1", {0, 4})), Catch::StartsWith("a.npy: shape (0, 4)"));
  CHECK_THAT(said(npy_header("|u1", {40000, 40000})),
             Catch::StartsWith("a.npy: .npy of 40000x40000 pixels is too large"));
}

TEST_CASE("TiffIsReadAsOthersWriteIt") {
  for (const TiffCase& tiff : tiffs()) {
    CAPTURE(tiff.what);
    const std::string bytes = from_hex(tiff.hex);
    const ImageInfo info = image_info(bytes, "a");
    CHECK(info.depth == tiff.depth);
    CHECK(info.channels == tiff.channels);
    CHECK(info.stack == (tiff.channels != 1 && tiff.channels != 3));
    const Image image = decode(bytes, tiff.depth);
    CHECK(image.width == 7);
    CHECK(image.height == 6);
    CHECK(image.pixels == pattern(7, 6, tiff.channels, tiff.depth).pixels);
    verify_image(bytes, "a");
  }
}

TEST_CASE("DamagedStacksAreRefusedOrRead") {
  for (const TiffCase& tiff : tiffs()) {
    CAPTURE(tiff.what);
    CHECK(accepted_damage(from_hex(tiff.hex), 300, decode_any) < 300);
  }
  const std::string npy = encode_npy(pattern(6, 5, 5, 16));
  CHECK(accepted_beginnings(npy, decode_any) == 0);
  CHECK(accepted_damage(npy, 300, decode_any) < 300);
}

TEST_CASE("WideOrManyChannelsAreResizedAsBytesAre") {
  const auto filter = GENERATE(Filter::kLanczos, Filter::kBox, Filter::kBicubic);
  const Image bytes = test_picture(40, 30, 3);
  for (const Size& size : {Size{17, 11}, Size{61, 47}, Size{40, 9}}) {
    const Image expected = resize(bytes, size, filter);
    // The same numbers, 257 times as large: what is rounded between two passes differs.
    const Image wide = resize(in_depth(bytes, 16), size, filter);
    CHECK(wide.depth == 16);
    CHECK(largest_difference(in_depth(wide, 8), expected) <= 1);
    // A stack of the same three channels and again two of them.
    Image five =
        stacked({bytes, only_channels(view_of(bytes), {1}), only_channels(view_of(bytes), {2})});
    REQUIRE(five.channels == 5);
    CHECK(five.stack);
    const Image small = resize(five, size, filter);
    CHECK(only_channels(view_of(small), {0, 1, 2}).pixels == expected.pixels);
    CHECK(only_channels(view_of(small), {3}).pixels ==
          only_channels(view_of(expected), {1}).pixels);
  }
}

TEST_CASE("AlphaIsWeighedInSixteenBitsAndNotInStacks") {
  // Opaque white beside clear black: the mean of the colours is white, of a stack's values grey.
  Image image = {2, 1, 2, {255, 255, 0, 0}};
  const Image mean = resize(in_depth(image, 16), {1, 1}, Filter::kBox);
  CHECK(words(mean) == std::vector<uint16_t>{65535, 32768});
  image.stack = true;
  CHECK(resize(image, {1, 1}, Filter::kBox).pixels == std::vector<uint8_t>{128, 128});
  CHECK(padded(image, 2, 3).pixels ==
        std::vector<uint8_t>{255, 255, 255, 255, 255, 255, 0, 0, 255, 255, 255, 255});
}

TEST_CASE("WideColoursAreConvertedAsBytesAre") {
  const int64_t from = GENERATE(1, 2, 3, 4);
  const int64_t to = GENERATE(1, 2, 3, 4);
  const Image image = test_picture(9, 7, from);
  const Image wide = with_channels(in_depth(image, 16), to);
  CHECK(wide.channels == to);
  CHECK(largest_difference(in_depth(wide, 8), with_channels(image, to)) <= 1);
  CHECK(oriented(in_depth(image, 16), 6).pixels == in_depth(oriented(image, 6), 16).pixels);
}

TEST_CASE("ChannelsAreChosenAndJoined") {
  const Image image = pattern(4, 3, 5, 16);
  const Image grey = only_channels(view_of(image), {3});
  CHECK(grey.channels == 1);
  CHECK(words(grey)[5] == words(image)[5 * 5 + 3]);
  const Image two = only_channels(view_of(image), {4, 0});
  CHECK(two.channels == 3);
  CHECK(words(two)[3 * 7] == words(image)[5 * 7 + 4]);
  CHECK(words(two)[3 * 7 + 1] == words(image)[5 * 7]);
  CHECK(words(two)[3 * 7 + 2] == 0);
  std::vector<Image> parts;
  for (int64_t c = 0; c < 5; ++c) parts.push_back(only_channels(view_of(image), {c}));
  CHECK(stacked(parts).pixels == image.pixels);
  const Image shown = to_show(image);
  CHECK(shown.channels == 3);
  CHECK(shown.depth == 8);
  for (const bool flipped : {false, true}) {
    std::vector<uint16_t> planes(60);
    std::vector<uint8_t> bytes(60);
    copy_planes(view_of(image), flipped, planes.data());
    copy_planes(view_of(image), flipped, bytes.data());
    const size_t x = flipped ? 2 : 1;  // in row 2, channel 3
    CHECK(planes[3 * 12 + 2 * 4 + x] == words(image)[(2 * 4 + 1) * 5 + 3]);
    CHECK(bytes[3 * 12 + 2 * 4 + x] == in_depth(image, 8).pixels[(2 * 4 + 1) * 5 + 3]);
  }
}

}  // namespace gantrain
