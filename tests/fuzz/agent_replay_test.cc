// The client library against hostile daemons: the corpus of agent_fuzz.cc and a little generated
// input, so that every build runs them. A binary of its own, since the library is once per process.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <span>
#include <vector>

#include "client_lib/include/profd/profd.h"

namespace profd {

void FuzzAgent(std::span<const uint8_t> data);

namespace {

std::vector<std::vector<uint8_t>> Corpus() {
  std::vector<std::vector<uint8_t>> inputs;
  for (const auto& entry : std::filesystem::directory_iterator(PROFD_FUZZ_CORPUS "/agent")) {
    std::ifstream in(entry.path(), std::ios::binary);
    const std::vector<char> bytes(std::istreambuf_iterator<char>(in), {});
    inputs.emplace_back(bytes.begin(), bytes.end());
  }
  return inputs;
}

TEST(AgentReplayTest, TheLibrarySurvivesItsCorpus) {
  const auto inputs = Corpus();
  EXPECT_GE(inputs.size(), 5u);
  for (const auto& input : inputs) FuzzAgent(input);
}

TEST(AgentReplayTest, TheLibrarySurvivesRandomSessions) {
  std::mt19937 random(11);
  for (int round = 0; round < 150; ++round) {
    std::vector<uint8_t> session(random() % 120);
    for (uint8_t& byte : session) byte = static_cast<uint8_t>(random());
    FuzzAgent(session);
  }
}

TEST(AgentReplayTest, TheLibrarySurvivesMutatedSessions) {
  std::mt19937 random(12);
  for (const auto& input : Corpus()) {
    for (int round = 0; round < 20 && !input.empty(); ++round) {
      std::vector<uint8_t> session = input;
      for (size_t changes = 1 + random() % 4; changes > 0; --changes) {
        session[random() % session.size()] = static_cast<uint8_t>(random());
      }
      FuzzAgent(session);
    }
  }
}

}  // namespace
}  // namespace profd
