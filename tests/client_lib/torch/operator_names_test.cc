// The ids of operators' names: the same for the same text, however it is met.
#include "client_lib/torch/operator_names.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>
#include <vector>

#include "client_lib/core/name_table.h"

namespace profd::client::torch {
namespace {

std::string TextOf(uint32_t id) {
  NameView name{};
  return g_names.Find(id, &name) ? std::string(name.bytes, name.length) : "(no such name)";
}

TEST(OperatorNamesTest, ANameOfAnyLengthKeepsItsText) {
  std::set<uint32_t> ids;
  for (size_t length = 1; length <= 200; ++length) {
    const std::string text = std::string(length - 1, 'n') + "!";
    for (int time = 0; time < 2; ++time) {
      EXPECT_EQ(TextOf(NameOf(text.c_str())), text);
      ids.insert(NameOf(text.c_str()));
    }
  }
  EXPECT_EQ(ids.size(), 200u);
}

TEST(OperatorNamesTest, NamesThatDifferInOneByteAreTwo) {
  for (const size_t length : {1u, 3u, 4u, 7u, 8u, 9u, 15u, 16u, 17u, 40u, 124u}) {
    const std::string text(length, 'a');
    const uint32_t id = NameOf(text.c_str());
    for (size_t at = 0; at < length; ++at) {
      std::string other = text;
      other[at] = 'b';
      EXPECT_NE(NameOf(other.c_str()), id) << other;
      EXPECT_EQ(TextOf(NameOf(other.c_str())), other);
    }
    EXPECT_EQ(NameOf(text.c_str()), id);
  }
}

TEST(OperatorNamesTest, ANameIsFoundByItsTextNotByItsPlace) {
  std::string text = "autograd::engine::evaluate_function: MulBackward0";
  const uint32_t mul = NameOf(text.c_str());
  text.replace(text.find("Mul"), 3, "Sum");
  EXPECT_NE(NameOf(text.c_str()), mul);
  EXPECT_EQ(TextOf(NameOf(text.c_str())), text);
  EXPECT_EQ(NameOf("autograd::engine::evaluate_function: MulBackward0"), mul);
}

TEST(OperatorNamesTest, AnEmptyNameIsAName) {
  EXPECT_EQ(TextOf(NameOf("")), "");
  EXPECT_EQ(NameOf(""), NameOf(""));
}

TEST(OperatorNamesTest, MoreNamesThanThereArePlacesForKeepTheirTexts) {
  for (int time = 0; time < 2; ++time) {
    for (int i = 0; i < 1500; ++i) {
      const std::string text = "aten::operator_" + std::to_string(i);
      ASSERT_EQ(TextOf(NameOf(text.c_str())), text);
    }
  }
}

TEST(OperatorNamesTest, ThreadsThatMeetTheSameNamesAgree) {
  constexpr size_t kNames = 500;
  std::vector<std::vector<uint32_t>> ids(4);
  std::vector<std::thread> threads;
  threads.reserve(ids.size());
  for (std::vector<uint32_t>& mine : ids) {
    threads.emplace_back([&mine] {
      for (size_t i = 0; i < kNames; ++i) {
        mine.push_back(NameOf(("met by all " + std::to_string(i)).c_str()));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<uint32_t>& mine : ids) EXPECT_EQ(mine, ids[0]);
}

}  // namespace
}  // namespace profd::client::torch
