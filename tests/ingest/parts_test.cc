// The smaller parts of ingest: frames, order of chunks, windows, names, clocks, /proc.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <barrier>
#include <fstream>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/unique_fd.h"
#include "daemon/ingest/agent_socket.h"
#include "daemon/ingest/capture_memory.h"
#include "daemon/ingest/chunk_sequencer.h"
#include "daemon/ingest/decode/tick_clock.h"
#include "daemon/ingest/frame_codec.h"
#include "daemon/ingest/process_info.h"
#include "daemon/ingest/spare_memory.h"
#include "daemon/ingest/status_page_view.h"
#include "daemon/ingest/unpushed_chunks.h"
#include "daemon/ingest/window_book.h"
#include "proto/wire/clock.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/file_size_limit.h"
#include "tests/fakes/status_matchers.h"
#include "tests/ingest/ingest_testing.h"

namespace profd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::byte> Packet(FrameBuilder& builder) {
  const auto bytes = builder.Finish();
  return {bytes.begin(), bytes.end()};
}

TEST(FrameCodecTest, AFrameComesBackAsItWasBuilt) {
  FrameBuilder builder(wire::FrameType::kStop, 7);
  builder.Add(wire::StopBody{42});
  const std::vector<std::byte> packet = Packet(builder);
  const auto frame = ParseFrame(packet);
  ASSERT_THAT(frame, IsOk());
  EXPECT_EQ(frame->type, static_cast<uint16_t>(wire::FrameType::kStop));
  EXPECT_EQ(frame->request_id, 7u);
  EXPECT_EQ(BodyOf<wire::StopBody>(*frame)->capture_number, 42u);
}

TEST(FrameCodecTest, HelloCarriesVersionAndMetadataCleaned) {
  FrameBuilder builder(wire::FrameType::kHello);
  builder.Add(wire::HelloBody{.version_min = 1, .version_max = 3});
  builder.AddField(wire::FieldTag::kLibraryVersion, "0.1\x1b[31m");
  builder.AddField(wire::FieldTag::kMetadata, "rank=3");
  builder.AddField(wire::FieldTag::kMetadata, "Bad Key=3");
  builder.AddField(wire::FieldTag::kMetadata, "no equals sign");
  builder.AddField(wire::FieldTag::kMetadata, "job=\xff" + std::string(10, 'x'));
  builder.AddField(static_cast<wire::FieldTag>(999), "to come");
  const std::vector<std::byte> packet = Packet(builder);
  const auto hello = ParseHello(*ParseFrame(packet));
  ASSERT_THAT(hello, IsOk());
  EXPECT_EQ(hello->fields.library_version, "0.1?[31m");
  ASSERT_EQ(hello->fields.metadata.size(), 2u);
  EXPECT_EQ(hello->fields.metadata.at("rank"), "3");
  EXPECT_EQ(hello->fields.metadata.at("job"), "\uFFFDxxxxxxxxxx");
}

TEST(FrameCodecTest, AtMost32KeysAreKept) {
  FrameBuilder builder(wire::FrameType::kMetadata);
  for (int i = 0; i < 100; ++i) {
    builder.AddField(wire::FieldTag::kMetadata, StrCat("k", i, "=v"));
  }
  const std::vector<std::byte> packet = Packet(builder);
  EXPECT_EQ(ParseMetadata(*ParseFrame(packet))->metadata.size(), 32u);
}

TEST(FrameCodecTest, TheHighestCommonVersionIsSpoken) {
  EXPECT_EQ(CommonVersion(1, 9), wire::kProtocolVersionMax);
  EXPECT_EQ(CommonVersion(0, 1), 1);
  EXPECT_EQ(CommonVersion(wire::kProtocolVersionMax + 1, 99), std::nullopt);
  EXPECT_EQ(CommonVersion(0, 0), std::nullopt);
  EXPECT_EQ(CommonVersion(5, 2), std::nullopt);
}

TEST(FrameCodecHostileTest, LengthsThatLie) {
  FrameBuilder builder(wire::FrameType::kStop);
  builder.Add(wire::StopBody{42});
  const std::vector<std::byte> good = Packet(builder);
  for (const uint32_t length : {0u, 15u, 23u, 25u, UINT32_MAX}) {
    std::vector<std::byte> bad = good;
    memcpy(bad.data() + offsetof(wire::FrameHeader, length_bytes), &length, sizeof(length));
    EXPECT_THAT(ParseFrame(bad), StatusIs(absl::StatusCode::kInvalidArgument)) << length;
  }
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_THAT(ParseFrame(std::span(good).first(size)),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
  std::vector<std::byte> wrong_magic = good;
  wrong_magic[0] = std::byte{0};
  EXPECT_FALSE(ParseFrame(wrong_magic).ok());
  EXPECT_FALSE(ParseFrame(std::vector<std::byte>(wire::kMaxFrameBytes + 1)).ok());
}

TEST(FrameCodecHostileTest, FieldsThatReachPastTheirFrame) {
  FrameBuilder builder(wire::FrameType::kHello);
  builder.Add(wire::HelloBody{}).Add(wire::FieldHeader{2, 100});
  const std::vector<std::byte> packet = Packet(builder);
  EXPECT_THAT(ParseHello(*ParseFrame(packet)), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(FrameCodecHostileTest, NoMutationOfAHelloDoesHarm) {
  FrameBuilder builder(wire::FrameType::kHello);
  builder.Add(wire::HelloBody{.version_min = 1, .version_max = 1});
  builder.AddField(wire::FieldTag::kMetadata, "rank=3").AddField(wire::FieldTag::kText, "x");
  const std::vector<std::byte> good = Packet(builder);
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> bad = good;
    for (int flips = 0; flips < 3; ++flips) {
      bad[16 + random() % (bad.size() - 16)] = static_cast<std::byte>(random());
    }
    if (const auto frame = ParseFrame(bad); frame.ok()) static_cast<void>(ParseHello(*frame));
  }
}

class ChunkSequencerTest : public testing::Test {
 protected:
  ChunkCopy* Copy(uint32_t serial, uint32_t sequence) {
    copies_.push_back(std::make_unique<ChunkCopy>());
    copies_.back()->thread_serial = serial;
    copies_.back()->sequence = sequence;
    return copies_.back().get();
  }
  std::vector<std::unique_ptr<ChunkCopy>> copies_;
  std::vector<uint32_t> given_;
  int rejected_ = 0;
  ChunkSequencer sequencer_{4, [this](ChunkCopy* copy) { given_.push_back(copy->sequence); },
                            [this](ChunkCopy*) { ++rejected_; }};
};

TEST_F(ChunkSequencerTest, EarlyChunksWaitForThoseBeforeThem) {
  for (const uint32_t sequence : {1, 3, 0, 2}) sequencer_.Accept(Copy(1, sequence));
  EXPECT_THAT(given_, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(sequencer_.gap_count(), 0);
}

TEST_F(ChunkSequencerTest, ChunksWhosePlaceIsTakenAreRejected) {
  for (const uint32_t sequence : {0, 0, 2, 2}) sequencer_.Accept(Copy(1, sequence));
  EXPECT_EQ(rejected_, 2);
}

TEST_F(ChunkSequencerTest, OnlySoManyAreHeldBack) {
  for (uint32_t sequence = 10; sequence < 15; ++sequence) sequencer_.Accept(Copy(1, sequence));
  EXPECT_THAT(given_, ElementsAre(10, 11, 12, 13, 14));
  EXPECT_EQ(sequencer_.gap_count(), 1);
}

TEST_F(ChunkSequencerTest, TheEndGivesTheRestInOrder) {
  for (const uint32_t sequence : {7u, UINT32_MAX, 5u}) sequencer_.Accept(Copy(1, sequence));
  sequencer_.Finish();
  EXPECT_THAT(given_, ElementsAre(5, 7, UINT32_MAX));
  EXPECT_EQ(sequencer_.gap_count(), 3);
}

class CaptureMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    auto memory = CaptureMemory::Create(9, wire::kMinCaptureMemoryBytes);
    ASSERT_THAT(memory, IsOk());
    memory_ = *std::move(memory);
    while (memory_->FillFreeList() == CaptureMemory::Fill::kMore) {
    }
    void* mapped =
        mmap(nullptr, memory_->size_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, memory_->fd(), 0);
    ASSERT_NE(mapped, MAP_FAILED);
    theirs_ = static_cast<std::byte*>(mapped);
    layout_ = wire::LayoutFor(memory_->size_bytes());
    header_ = reinterpret_cast<wire::CaptureMemoryHeader*>(theirs_);
  }
  void TearDown() override { munmap(theirs_, layout_.total_bytes); }

  void SetName(uint32_t id, uint64_t offset) {
    reinterpret_cast<std::atomic<uint32_t>*>(theirs_ + layout_.name_index_offset)[id].store(
        static_cast<uint32_t>(offset));
  }
  void WriteEntry(uint64_t offset, uint32_t length, std::string_view bytes) {
    memcpy(theirs_ + offset, &length, sizeof(length));
    memcpy(theirs_ + offset + sizeof(wire::NameEntry), bytes.data(), bytes.size());
  }

  std::unique_ptr<CaptureMemory> memory_;
  std::byte* theirs_ = nullptr;
  wire::CaptureMemoryLayout layout_{};
  wire::CaptureMemoryHeader* header_ = nullptr;
};

TEST_F(CaptureMemoryTest, EveryChunkIsOnTheFreeListOnce) {
  std::set<uint32_t> seen;
  auto head = static_cast<uint32_t>(header_->free_head.load());
  const auto* table = reinterpret_cast<wire::ChunkControl*>(theirs_ + layout_.chunk_table_offset);
  while (head != 0) {
    ASSERT_TRUE(seen.insert(head - 1).second);
    head = table[head - 1].next_free.load();
  }
  EXPECT_EQ(seen.size(), layout_.chunk_count);
}

TEST(CaptureMemoryFillTest, TheFirstChunksComeBeforeTheOtherNames) {
  const auto memory = CaptureMemory::Create(9, wire::kDefaultCaptureMemoryBytes);
  ASSERT_THAT(memory, IsOk());
  const wire::CaptureMemoryLayout layout = (*memory)->layout();
  const auto filled_bytes = [&] { return (*memory)->untrusted_header().filled_bytes.load(); };
  EXPECT_FALSE((*memory)->has_first_chunks());
  while (!(*memory)->has_first_chunks()) {
    ASSERT_EQ((*memory)->FillFreeList(), CaptureMemory::Fill::kMore);
    EXPECT_EQ(filled_bytes(), (*memory)->first_bytes()) << "not all names have their pages";
  }
  uint64_t filled = filled_bytes();
  EXPECT_LT(filled, layout.chunks_offset);
  while ((*memory)->FillFreeList() == CaptureMemory::Fill::kMore) {
    EXPECT_GT(filled_bytes(), filled);
    filled = filled_bytes();
  }
  EXPECT_EQ(filled, layout.total_bytes);
}

TEST_F(CaptureMemoryTest, TheTargetCannotResizeIt) {
  EXPECT_NE(ftruncate(memory_->fd(), 0), 0);
  EXPECT_NE(ftruncate(memory_->fd(), 1 << 24), 0);
}

TEST_F(CaptureMemoryTest, NamesAreReadWithinTheirArea) {
  std::string name;
  const uint64_t area = layout_.name_area_offset;
  WriteEntry(area, 5, "hello");
  SetName(7, area);
  EXPECT_TRUE(memory_->ReadName(7, name));
  EXPECT_EQ(name, "hello");
  EXPECT_FALSE(memory_->ReadName(8, name)) << "never published";
}

TEST_F(CaptureMemoryTest, NamesThatLieAreNotThere) {
  std::string name;
  const uint64_t area = layout_.name_area_offset;
  const uint64_t area_end = area + layout_.name_area_bytes;
  EXPECT_FALSE(memory_->ReadName(0, name));
  EXPECT_FALSE(memory_->ReadName(layout_.name_capacity, name));
  EXPECT_FALSE(memory_->ReadName(UINT32_MAX, name));
  for (const uint64_t offset :
       {area + 4, area - 8, area_end, area_end - 4, uint64_t{8}, uint64_t{0xfffffff8}}) {
    SetName(7, offset);
    EXPECT_FALSE(memory_->ReadName(7, name)) << offset;
  }
  WriteEntry(area, wire::kMaxNameBytes + 1, "");
  SetName(7, area);
  EXPECT_FALSE(memory_->ReadName(7, name)) << "too long";
  WriteEntry(area_end - 16, 9, "");
  SetName(7, area_end - 16);
  EXPECT_FALSE(memory_->ReadName(7, name)) << "reaches past the area";
}

TEST_F(CaptureMemoryTest, ANameThatChangesWhileItIsReadIsSomeName) {
  const uint64_t area = layout_.name_area_offset;
  SetName(7, area);
  std::atomic<bool> stop{false};
  std::thread liar([&] {
    auto* length = reinterpret_cast<std::atomic<uint32_t>*>(theirs_ + area);
    for (uint32_t i = 0; !stop; ++i) length->store(i % 3 == 0 ? UINT32_MAX : i % 5000);
  });
  for (int i = 0; i < 20'000; ++i) {
    std::string name;
    if (memory_->ReadName(7, name)) {
      ASSERT_LE(name.size(), wire::kMaxNameBytes);
    }
  }
  stop = true;
  liar.join();
}

TEST_F(CaptureMemoryTest, WhatIsPublishedIsNoMoreThanAChunkHolds) {
  auto* chunk = reinterpret_cast<wire::ChunkHeader*>(theirs_ + layout_.chunks_offset);
  ChunkQueue queue(4 * wire::kChunkBytes);
  ChunkCopy* copy = queue.Take();
  for (const uint32_t published : {0u, 7u, 13u, wire::kChunkDataBytes, UINT32_MAX}) {
    chunk->published_bytes.store(published);
    memory_->CopyChunk(0, *copy);
    EXPECT_LE(copy->record_bytes, std::min(published, wire::kChunkDataBytes));
    EXPECT_EQ(copy->record_bytes % 8, 0u);
  }
}

TEST_F(CaptureMemoryTest, AFreeListThatKeepsChangingIsGivenUpOn) {
  std::atomic<bool> stop{false};
  std::thread liar([&] {
    for (uint64_t i = 0; !stop; ++i) header_->free_head.store(i << 20 | (i & 0xffff));
  });
  for (uint32_t i = 0; i < 20'000; ++i) {
    static_cast<void>(memory_->PushFree(i % layout_.chunk_count));
  }
  stop = true;
  liar.join();
}

TEST(UnpushedChunksTest, WhatTheListDoesNotTakeIsKeptUntilItDoes) {
  std::vector<uint32_t> tried;
  int takes = 1;  // So many pushes succeed.
  const auto push = [&](uint32_t index) {
    tried.push_back(index);
    return takes-- > 0;
  };
  UnpushedChunks chunks(8);
  chunks.GiveBack(3, push);
  EXPECT_FALSE(chunks.Has(3));
  chunks.GiveBack(5, push);
  chunks.GiveBack(6, push);
  EXPECT_THAT(tried, ElementsAre(3, 5)) << "one failure is enough for a visit";
  EXPECT_TRUE(chunks.Has(5));
  EXPECT_TRUE(chunks.Has(6));

  tried.clear();
  takes = 1;
  chunks.Retry(push);
  EXPECT_THAT(tried, ElementsAre(6, 5));
  EXPECT_TRUE(chunks.Has(5));
  EXPECT_FALSE(chunks.Has(6));

  tried.clear();
  takes = 8;
  chunks.Retry(push);
  chunks.Retry(push);
  EXPECT_THAT(tried, ElementsAre(5)) << "pushed once: twice on the list, two threads would have it";
  chunks.GiveBack(6, push);
  EXPECT_THAT(tried, ElementsAre(5, 6));
  EXPECT_FALSE(chunks.Has(6));
}

TEST(ChunkQueueTest, PopWaitsNoLongerThanItMay) {
  ChunkQueue queue(4 * wire::kChunkBytes);
  const absl::Time begin = absl::Now();
  EXPECT_EQ(queue.Pop(absl::ZeroDuration(), absl::Milliseconds(2)), nullptr);
  EXPECT_GE(absl::Now() - begin, absl::Milliseconds(2));
  ChunkCopy* const copy = queue.Take();
  copy->copy_time = Clock::Real().Monotonic();
  queue.Push(copy);
  EXPECT_EQ(queue.Pop(absl::Hours(1), absl::Milliseconds(2)), nullptr);  // It is not due.
  EXPECT_EQ(queue.Pop(absl::ZeroDuration(), absl::InfiniteDuration()), copy);
  std::thread writer([&queue, copy] {
    copy->copy_time = Clock::Real().Monotonic();
    queue.Push(copy);
  });
  EXPECT_EQ(queue.Pop(absl::ZeroDuration(), absl::InfiniteDuration()), copy);
  writer.join();
  queue.Close();
  EXPECT_EQ(queue.Pop(absl::Hours(1), absl::InfiniteDuration()), nullptr);
}

TEST(MemoryLayoutTest, OddSizesAreRefusedByTheSystemAtWorst) {
  EXPECT_THAT(CaptureMemory::Create(1, uint64_t{1} << 55),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

class SpareMemoryTest : public testing::Test {
 protected:
  static constexpr uint64_t kBytes = wire::kDefaultCaptureMemoryBytes;

  std::unique_ptr<CaptureMemory> Take(uint64_t number, uint64_t bytes = kBytes) {
    auto taken = spare_.Take(number, bytes);
    EXPECT_THAT(taken, IsOk());
    return *std::move(taken);
  }
  static struct stat FileOf(const CaptureMemory& memory) {
    struct stat info {};
    EXPECT_EQ(fstat(memory.fd(), &info), 0);
    return info;
  }

  // What the target touches first has been cleared: until then mincore() does not count a page.
  static void ExpectCleared(const CaptureMemory& memory) {
    const auto page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t chunks_at = memory.layout().chunks_offset / page_bytes * page_bytes;
    void* theirs = mmap(nullptr, memory.size_bytes(), PROT_READ, MAP_SHARED, memory.fd(), 0);
    ASSERT_NE(theirs, MAP_FAILED);
    std::vector<unsigned char> start(memory.first_bytes() / page_bytes);
    std::vector<unsigned char> chunks((512 << 10) / page_bytes);
    EXPECT_EQ(mincore(theirs, start.size() * page_bytes, start.data()), 0);
    EXPECT_EQ(mincore(static_cast<std::byte*>(theirs) + chunks_at, chunks.size() * page_bytes,
                      chunks.data()),
              0);
    constexpr int kPopulateRead = 22;  // Linux 5.14.
    const bool can_populate = madvise(theirs, page_bytes, kPopulateRead) == 0;
    munmap(theirs, memory.size_bytes());
    if (!can_populate) GTEST_SKIP() << "this kernel cannot populate";
    EXPECT_THAT(start, testing::Each(1));
    EXPECT_THAT(chunks, testing::Each(1));
  }

  FakeClock clock_;
  SpareMemory spare_{clock_};
};

TEST_F(SpareMemoryTest, ASpareHasWhatACaptureNeedsToBeArmed) {
  spare_.Prepare();
  ASSERT_TRUE(spare_.has_spare());
  const auto taken = Take(7);
  EXPECT_FALSE(spare_.has_spare());
  EXPECT_TRUE(taken->has_first_chunks());
  EXPECT_EQ(taken->untrusted_header().capture_number, 7u);
  EXPECT_EQ(taken->untrusted_header().filled_bytes.load(), taken->first_bytes());
  const auto page_bytes = static_cast<uint64_t>(FileOf(*taken).st_blocks) * 512;
  EXPECT_GE(page_bytes, uint64_t{4} << 20);
  EXPECT_LE(page_bytes, SpareMemory::kSpareBytes);
  while (taken->FillFreeList() == CaptureMemory::Fill::kMore) {
  }
  EXPECT_EQ(taken->untrusted_header().filled_bytes.load(), taken->size_bytes());
}

TEST_F(SpareMemoryTest, WhatTheTargetTouchesIsClearedWithASpareAndWithout) {
  spare_.Prepare();
  ExpectCleared(*Take(1));
  ASSERT_FALSE(spare_.has_spare());
  ExpectCleared(*Take(2));
  ExpectCleared(*Take(3, wire::kMinCaptureMemoryBytes));
}

TEST_F(SpareMemoryTest, EachCaptureHasAMemoryOfItsOwn) {
  spare_.Prepare();
  spare_.Prepare();
  const auto first = Take(1);
  const auto second = Take(2);  // There is one spare, however often it is prepared.
  EXPECT_FALSE(second->has_first_chunks());
  EXPECT_EQ(second->untrusted_header().capture_number, 2u);
  EXPECT_NE(FileOf(*first).st_ino, FileOf(*second).st_ino);
  EXPECT_EQ(spare_.taken_count(), 1);
}

TEST_F(SpareMemoryTest, WhatOneTargetWroteNeverReachesAnother) {
  spare_.Prepare();
  auto first = Take(1);
  const uint64_t names_at = first->layout().name_area_offset;
  const uint64_t chunks_at = first->layout().chunks_offset + wire::kChunkDataOffset;
  const ino_t first_file = FileOf(*first).st_ino;
  const UniqueFd theirs(dup(first->fd()));  // The target keeps its descriptor.
  const std::string secret(4096, 's');
  const auto write_all = [&] {
    for (const uint64_t at : {names_at, chunks_at}) {
      ASSERT_EQ(pwrite(theirs.get(), secret.data(), secret.size(), static_cast<off_t>(at)), 4096);
    }
  };
  write_all();
  first.reset();
  spare_.Prepare();
  write_all();
  const auto next = Take(2);
  EXPECT_EQ(spare_.taken_count(), 2);
  EXPECT_NE(FileOf(*next).st_ino, first_file);
  for (const uint64_t at : {names_at, chunks_at}) {
    std::string found(secret.size(), 'x');
    ASSERT_EQ(pread(next->fd(), found.data(), found.size(), static_cast<off_t>(at)), 4096);
    EXPECT_EQ(found, std::string(secret.size(), '\0')) << at;
  }
}

TEST_F(SpareMemoryTest, ASpareThatCannotBeMadeIsNotTriedAgainAtOnce) {
  {
    // Not a limit of descriptors: UBSan needs two to look at an object with virtual functions.
    const FileSizeLimit none(0);
    spare_.Prepare();
  }
  EXPECT_FALSE(spare_.has_spare());
  clock_.Advance(SpareMemory::kRetryInterval - absl::Milliseconds(1));
  spare_.Prepare();
  EXPECT_FALSE(spare_.has_spare());
  clock_.Advance(absl::Milliseconds(1));
  spare_.Prepare();
  EXPECT_TRUE(spare_.has_spare());
}

TEST_F(SpareMemoryTest, AnotherSizeIsMadeNewAndLeavesTheSpare) {
  spare_.Prepare();
  const auto small = Take(1, wire::kMinCaptureMemoryBytes);
  EXPECT_EQ(small->size_bytes(), wire::kMinCaptureMemoryBytes);
  EXPECT_TRUE(spare_.has_spare());
  EXPECT_THAT(spare_.Take(2, uint64_t{1} << 55), StatusIs(absl::StatusCode::kResourceExhausted));
}

class WindowBookTest : public testing::Test {
 protected:
  void Set(size_t window, uint64_t start, uint64_t end, uint64_t first, uint64_t last) {
    header_.windows[window].first_step.store(first);
    header_.windows[window].start_ticks.store(start);
    header_.windows[window].end_step.store(last);
    header_.windows[window].end_ticks.store(end);
  }
  std::vector<RecordedWindow> Recorded(const WindowBook& book) {
    RecordingSink sink;
    FakeNames names({});
    const EventDecoder decoder(line_, names, book.ticks(), sink);
    return book.Recorded(line_, decoder);
  }
  wire::CaptureMemoryHeader header_{};
  const TickLine line_{ClockPair{1000, 0, 0}, 1.0};
  WindowBook book_{header_, FirePlan{.steps = 5, .repeat = 2}, 1000};
};

TEST_F(WindowBookTest, WindowsAreTakenAsTheTargetClosedThem) {
  Set(0, 2000, 3000, 7, 12);
  Set(1, 4000, 5000, 20, 23);
  book_.Refresh(10'000);
  const auto windows = Recorded(book_);
  ASSERT_EQ(windows.size(), 2u);
  EXPECT_EQ(windows[0].start_ns, 1000);
  EXPECT_EQ(windows[0].end_step, 12);
  EXPECT_TRUE(windows[0].complete);
  EXPECT_FALSE(windows[1].complete) << "three steps of five";
}

TEST_F(WindowBookTest, AnEdgeOnceSeenStays) {
  Set(0, 2000, 0, 7, 0);
  book_.Refresh(10'000);
  Set(0, 2500, 3000, 9, 12);
  book_.Refresh(10'000);
  EXPECT_EQ(book_.ticks()[0].start, 2000u);
  Set(0, 1, 9000, 1, 1);
  book_.Refresh(10'000);
  EXPECT_EQ(book_.ticks()[0].end, 3000u);
}

TEST_F(WindowBookTest, EdgesThatCannotBeAreNotSeen) {
  Set(0, 999, 0, 7, 0);  // Before the epoch.
  book_.Refresh(10'000);
  EXPECT_EQ(book_.ticks()[0].start, 0u);
  Set(0, 10'001, 0, 7, 0);  // In the future.
  book_.Refresh(10'000);
  EXPECT_EQ(book_.ticks()[0].start, 0u);
  Set(0, 2000, 1500, UINT64_MAX, 0);  // No step.
  book_.Refresh(10'000);
  EXPECT_EQ(book_.ticks()[0].start, 0u);
  Set(0, 2000, 1500, 7, 0);  // Ends before it begins.
  book_.Refresh(10'000);
  EXPECT_EQ(book_.ticks()[0].start, 2000u);
  EXPECT_EQ(book_.ticks()[0].end, 0u);
  Set(0, 2000, 3000, 7, UINT64_MAX);
  Set(1, 2500, 4000, 9, 9);  // Begins inside the first.
  book_.Refresh(10'000);
  EXPECT_EQ(book_.ticks()[1].start, 0u);
  EXPECT_EQ(Recorded(book_)[0].end_step, 7);
}

TEST_F(WindowBookTest, StepsBeyondThePlanAreNotBelieved) {
  Set(0, 2000, 3000, 7, 1'000'000);
  book_.Refresh(10'000);
  EXPECT_EQ(Recorded(book_)[0].end_step, 12);
}

TEST_F(WindowBookTest, ACutWindowIsIncomplete) {
  Set(0, 2000, 0, 7, 0);
  book_.Refresh(10'000);
  book_.Cut(8000);
  const auto windows = Recorded(book_);
  ASSERT_EQ(windows.size(), 1u);
  EXPECT_EQ(windows[0].end_ns, 7000);
  EXPECT_EQ(windows[0].end_step, 7) << "no step was seen to end";
  EXPECT_FALSE(windows[0].complete);
}

TEST_F(WindowBookTest, WithoutAPlanThereAreNoWindows) {
  WindowBook book(header_, FirePlan{.repeat = 0}, 1000);
  Set(0, 2000, 3000, 7, 12);
  book.Refresh(10'000);
  EXPECT_TRUE(book.ticks().empty());
}

TEST(TickClockTest, ALineGoesThroughItsEpochAndNeverFalls) {
  TickClock clock(wire::DetectClockKind());
  const ClockPair epoch = clock.Sample();
  const TickLine line = clock.LineThrough(epoch);
  EXPECT_EQ(line.ToNs(epoch.ticks), 0);
  int64_t last = line.ToNs(epoch.ticks - 1000);
  EXPECT_LT(last, 0);
  for (uint64_t ticks = epoch.ticks - 999; ticks < epoch.ticks + 1000; ++ticks) {
    ASSERT_GE(line.ToNs(ticks), last);
    last = line.ToNs(ticks);
  }
}

TEST(TickClockTest, MonotonicTicksAreNanoseconds) {
  TickClock clock(wire::ClockKind::kMonotonicNs);
  const ClockPair epoch = clock.Sample();
  const TickLine line = clock.LineThrough(epoch);
  EXPECT_EQ(line.ToNs(epoch.ticks + 12345), 12345);
  EXPECT_EQ(line.ErrorAt(clock.Sample()), 0);
}

TEST(TickClockTest, TheErrorIsWhatTheLineMissesByAndTheBrackets) {
  const TickLine line({1000, 5000, 3}, 2.0);
  EXPECT_EQ(line.ErrorAt({2000, 7010, 4}), 10 + 3 + 4);
}

TEST(ProcessInfoTest, KnowsItself) {
  const UniqueFd self(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
  ASSERT_TRUE(self.valid());
  const auto facts = ReadProcessFacts(ProcessReader::Direct(), self.get());
  ASSERT_THAT(facts, IsOk());
  EXPECT_EQ(facts->parent_pid, getppid());
  EXPECT_GT(facts->start_ticks, 0);
  EXPECT_FALSE(facts->foreign_namespace);
  EXPECT_THAT(facts->command, HasSubstr("ingest_test"));
}

TEST(ProcessInfoTest, NamesWithParenthesesAndNewlinesDoNotConfuse) {
  const TempDir proc;
  const auto write = [&](const char* file, std::string_view text) {
    std::filesystem::create_directories(proc.path() / "77");
    std::ofstream(proc.path() / "77" / file) << text;
  };
  write("stat", "77 (a) R 1 ) (b) S 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 987654 24\n");
  write("status", "Name:\ta\nPPid:\t5\nNSpid:\t77\t3\n");
  write("cmdline", std::string_view("python\0train.py\0--x\x1b\0", 21));
  write("cgroup", "0::/kubepods/pod1\n");
  const auto raw = ReadProcFolder(proc.path() / "77");
  ASSERT_THAT(raw, IsOk());
  const ProcessFacts parsed = ProcessFactsFrom(**raw, proc.path() / "self");
  const ProcessFacts* const facts = &parsed;
  EXPECT_EQ(facts->start_ticks, 987654);
  EXPECT_EQ(facts->parent_pid, 5);
  EXPECT_EQ(facts->namespace_pid, 3);
  EXPECT_EQ(facts->command, "python train.py --x?");
  EXPECT_EQ(facts->cgroup, "/kubepods/pod1");
  EXPECT_TRUE(facts->foreign_namespace) << "what cannot be read may be anything";
  EXPECT_THAT(ReadProcFolder(proc.path() / "78"), StatusIs(absl::StatusCode::kNotFound));
}

TEST(AgentSocketTest, LetsEverybodyConnect) {
  const TempDir dir;
  const auto socket = AgentSocket::Listen(dir.path());
  ASSERT_THAT(socket, IsOk());
  struct stat file;
  ASSERT_EQ(stat((dir.path() / "agent/agent.sock").c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0666u);
  ASSERT_EQ(stat((dir.path() / "agent").c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0755u);
}

TEST(AgentSocketTest, ASecondDaemonIsTurnedAway) {
  const TempDir dir;
  const auto first = AgentSocket::Listen(dir.path());
  ASSERT_THAT(first, IsOk());
  EXPECT_THAT(AgentSocket::Listen(dir.path()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another profd answers")));
}

// What one daemon of several that start together listens at stays its own.
TEST(AgentSocketTest, OfDaemonsThatStartTogetherOneListens) {
  constexpr int kRounds = 200;
  const TempDir dir;
  for (int round = 0; round < kRounds; ++round) {
    std::array<std::optional<absl::StatusOr<AgentSocket>>, 4> sockets;
    std::barrier start(std::ssize(sockets));
    std::vector<std::thread> daemons;
    daemons.reserve(sockets.size());
    for (auto& socket : sockets) {
      daemons.emplace_back([&dir, &start, &socket] {
        start.arrive_and_wait();
        socket.emplace(AgentSocket::Listen(dir.path()));
      });
    }
    for (std::thread& daemon : daemons) daemon.join();
    int listening = 0;
    for (const auto& socket : sockets) {
      listening += socket->ok() ? 1 : 0;
      if (!socket->ok()) {
        EXPECT_THAT(socket->status(), StatusIs(absl::StatusCode::kFailedPrecondition));
      }
    }
    ASSERT_EQ(listening, 1) << "in round " << round;
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path() / "agent"));
}

TEST(AgentSocketTest, ASocketNobodyAnswersAtIsReplaced) {
  const TempDir dir;
  std::filesystem::create_directories(dir.path() / "agent");
  {
    const UniqueFd dead(socket(AF_UNIX, SOCK_SEQPACKET, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    strcpy(address.sun_path, (dir.path() / "agent/agent.sock").c_str());
    ASSERT_EQ(bind(dead.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  EXPECT_THAT(AgentSocket::Listen(dir.path()), IsOk());
}

TEST(AgentSocketTest, LeavesNothingBehind) {
  const TempDir dir;
  { ASSERT_THAT(AgentSocket::Listen(dir.path()), IsOk()); }
  EXPECT_FALSE(std::filesystem::exists(dir.path() / "agent/agent.sock"));
}

TEST(AgentSocketTest, APathTooLongIsSaidToBe) {
  const TempDir dir;
  EXPECT_THAT(AgentSocket::Listen(dir.path() / std::string(100, 'x')),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("too long")));
}

TEST(AgentSocketTest, InheritsOnlyListeningSequencedPacketSockets) {
  EXPECT_FALSE(AgentSocket::Inherit(UniqueFd(socket(AF_UNIX, SOCK_SEQPACKET, 0))).ok());
  EXPECT_FALSE(AgentSocket::Inherit(UniqueFd(socket(AF_UNIX, SOCK_STREAM, 0))).ok());
  EXPECT_FALSE(AgentSocket::Inherit(UniqueFd(open("/dev/null", O_RDONLY))).ok());
  const TempDir dir;
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  strcpy(address.sun_path, (dir.path() / "s").c_str());
  ASSERT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(fd.get(), 5), 0);
  { EXPECT_THAT(AgentSocket::Inherit(std::move(fd)), IsOk()); }
  EXPECT_TRUE(std::filesystem::exists(dir.path() / "s")) << "not ours to remove";
}

}  // namespace
}  // namespace profd
