#include "client_lib/python_stack/code_text.h"

namespace profd::client::python_stack {
namespace {

// PyASCIIObject.state from `kind_shift` on: three bits of the kind, then compact, then ascii. The
// same in 3.9 to 3.14.
constexpr uint32_t kKindMask = 7;
constexpr uint32_t kCompactBit = 8;
constexpr uint32_t kAsciiBit = 16;
// No text is longer: a length beyond it was none.
constexpr uint64_t kMostLength = 1u << 20;

uint32_t UnitAt(uint64_t data, uint32_t kind, uint64_t index) {
  if (kind == 1) return LoadAt<uint8_t>(data + index, 0);
  if (kind == 2) return LoadAt<uint16_t>(data + index * 2, 0);
  return LoadAt<uint32_t>(data + index * 4, 0);
}

size_t Encode(uint32_t unit, char* to) {
  constexpr uint32_t kFirstSurrogate = 0xd800;
  constexpr uint32_t kLastSurrogate = 0xdfff;
  const auto put = [to](size_t at, uint32_t value) { to[at] = static_cast<char>(value); };
  const auto tail = [](uint32_t bits) { return 0x80 | (bits & 0x3f); };
  if (unit < 0x80) {
    put(0, unit);
    return 1;
  }
  if (unit < 0x800) {
    put(0, 0xc0 | unit >> 6);
    put(1, tail(unit));
    return 2;
  }
  // Python's stand-ins for bytes of file names that are no text.
  if (unit >= kFirstSurrogate && unit <= kLastSurrogate) unit = 0xfffd;
  if (unit < 0x10000) {
    put(0, 0xe0 | unit >> 12);
    put(1, tail(unit >> 6));
    put(2, tail(unit));
    return 3;
  }
  put(0, 0xf0 | (unit >> 18 & 7));
  put(1, tail(unit >> 12));
  put(2, tail(unit >> 6));
  put(3, tail(unit));
  return 4;
}

// A number in the location table: six bits a byte, the lowest first.
uint64_t ReadNumber(const uint8_t* table, size_t bytes, size_t* at) {
  uint64_t value = 0;
  for (uint32_t shift = 0; *at < bytes && shift < 36; shift += 6) {
    const uint8_t byte = table[(*at)++];
    value |= uint64_t{byte & 0x3fu} << shift;
    if ((byte & 0x40) == 0) break;
  }
  return value;
}

uint32_t LineFrom(int64_t line) {
  return line > 0 && line <= INT32_MAX ? static_cast<uint32_t>(line) : 0;
}

}  // namespace

Text ReadText(const InterpreterLayout& layout, uint64_t object, char (&room)[kMostTextBytes]) {
  if (object == 0 || object % sizeof(uint64_t) != 0) return {"", 0};
  uint64_t length = LoadAt<uint64_t>(object, kTextLength);
  const uint32_t state = LoadAt<uint32_t>(object, kTextState) >> layout.kind_shift;
  const uint32_t kind = state & kKindMask;
  const bool is_known = kind == 1 || kind == 2 || kind == 4;
  if ((state & kCompactBit) == 0 || !is_known || length > kMostLength) return {"", 0};
  if ((state & kAsciiBit) != 0) {
    uint64_t data = object + static_cast<uint64_t>(layout.ascii_bytes);
    if (length > kMostTextBytes) {
      data += length - kMostTextBytes;
      length = kMostTextBytes;
    }
    return {reinterpret_cast<const char*>(data), length};
  }
  const uint64_t data = object + static_cast<uint64_t>(layout.compact_bytes);
  constexpr size_t kMostUnitBytes = 4;
  constexpr uint64_t kMostUnits = kMostTextBytes / kMostUnitBytes;
  size_t written = 0;
  for (uint64_t i = length > kMostUnits ? length - kMostUnits : 0; i < length; ++i) {
    written += Encode(UnitAt(data, kind, i), room + written);
  }
  return {room, written};
}

// Objects/lnotab_notes.txt, PyCode_Addr2Line() in Objects/codeobject.c of 3.9: pairs of an unsigned
// step of the offset and a signed one of the line.
uint32_t LineOfDeltas(const uint8_t* table, size_t bytes, int64_t first_line, int64_t offset) {
  int64_t line = first_line;
  int64_t address = 0;
  for (size_t at = 0; at + 2 <= bytes; at += 2) {
    address += table[at];
    if (address > offset) break;
    line += static_cast<int8_t>(table[at + 1]);
  }
  return LineFrom(line);
}

// Objects/lnotab_notes.txt, advance() in Objects/codeobject.c of 3.10: pairs of the bytes of a
// range and the step of the line to it; -128: the range has no line, and the next step is from
// before it.
uint32_t LineOfRanges(const uint8_t* table, size_t bytes, int64_t first_line, int64_t offset) {
  constexpr int8_t kNoLine = -128;
  int64_t line = first_line;
  int64_t end = 0;
  for (size_t at = 0; at + 2 <= bytes; at += 2) {
    const auto step = static_cast<int8_t>(table[at + 1]);
    if (step != kNoLine) line += step;
    end += table[at];
    if (offset < end) return step != kNoLine ? LineFrom(line) : 0;
  }
  return 0;
}

// Objects/locations.md of 3.11 and later. An entry begins with a byte that has the highest bit:
// four bits of its form, three of its length in instructions of two bytes.
uint32_t LineOfLocations(const uint8_t* table, size_t bytes, int64_t first_line, int64_t offset) {
  constexpr uint8_t kFirst = 0x80;
  constexpr uint8_t kFirstOneLine = 10;
  constexpr uint8_t kNoColumns = 13;
  constexpr uint8_t kLong = 14;
  constexpr uint8_t kNoLine = 15;
  int64_t line = first_line;
  int64_t end = 0;
  for (size_t at = 0; at < bytes;) {
    const uint8_t first = table[at++];
    const uint8_t form = first >> 3 & 15;
    if (form == kNoColumns || form == kLong) {
      const uint64_t number = ReadNumber(table, bytes, &at);
      const auto half = static_cast<int64_t>(number >> 1);
      line += (number & 1) != 0 ? -half : half;
    } else if (form >= kFirstOneLine && form < kNoColumns) {
      line += form - kFirstOneLine;
    }
    end += ((first & 7) + 1) * 2;
    if (offset < end) return form != kNoLine ? LineFrom(line) : 0;
    while (at < bytes && (table[at] & kFirst) == 0) ++at;
  }
  return 0;
}

uint32_t LineAt(const InterpreterLayout& layout, uint64_t code, int64_t offset) {
  const auto first_line = LoadAt<int32_t>(code, layout.code_first_line);
  // Before the first instruction.
  if (offset < 0) return LineFrom(first_line);
  const auto lines = LoadAt<uint64_t>(code, layout.code_lines);
  if (lines == 0 || lines % sizeof(uint64_t) != 0) return 0;
  const auto bytes = LoadAt<uint64_t>(lines, kBytesLength);
  if (bytes > kMostLength) return 0;
  const auto* table = reinterpret_cast<const uint8_t*>(lines + kBytesData);
  switch (layout.lines) {
    case LineTable::kDeltas:
      return LineOfDeltas(table, bytes, first_line, offset);
    case LineTable::kRanges:
      return LineOfRanges(table, bytes, first_line, offset);
    case LineTable::kLocations:
      return LineOfLocations(table, bytes, first_line, offset);
  }
  return 0;
}

}  // namespace profd::client::python_stack
