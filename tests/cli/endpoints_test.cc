#include "cli/endpoints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/fakes/status_matchers.h"

namespace profd::cli {
namespace {

using ::testing::ElementsAre;

absl::StatusOr<std::vector<std::string>> Addresses(std::optional<std::string> flag,
                                                   std::map<std::string, std::string> variables) {
  const auto endpoints =
      CandidateEndpoints(std::move(flag), [&variables](const char* name) -> const char* {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
      });
  if (!endpoints.ok()) return endpoints.status();
  std::vector<std::string> addresses;
  for (const Endpoint& endpoint : *endpoints) addresses.push_back(endpoint.address);
  return addresses;
}

TEST(CandidateEndpointsTest, TheFlagStandsAloneThenTheVariables) {
  const std::map<std::string, std::string> all = {{"PROFD_ADDRESS", "localhost:7000"},
                                                  {"PROFD_SOCKET_DIR", "/tmp/x"},
                                                  {"XDG_RUNTIME_DIR", "/run/user/7"}};
  EXPECT_THAT(*Addresses("unix:/a/b.sock", all), ElementsAre("unix:/a/b.sock"));
  EXPECT_THAT(*Addresses(std::nullopt, all), ElementsAre("localhost:7000"));
  EXPECT_THAT(*Addresses(std::nullopt, {{"PROFD_SOCKET_DIR", "/tmp/x/"}}),
              ElementsAre("unix:/tmp/x/control.sock"));
}

TEST(CandidateEndpointsTest, WithoutAnySettingTheMachineComesBeforeTheUser) {
  EXPECT_THAT(*Addresses(std::nullopt, {{"XDG_RUNTIME_DIR", "/run/user/7"}}),
              ElementsAre("unix:/run/profd/control.sock", "unix:/run/user/7/profd/control.sock"));
  EXPECT_THAT(*Addresses(std::nullopt, {{"PROFD_ADDRESS", ""}}),
              ElementsAre("unix:/run/profd/control.sock"));
}

TEST(CandidateEndpointsTest, AddressesComeInThreeForms) {
  EXPECT_THAT(*Addresses("unix:///a/b", {}), ElementsAre("unix:/a/b"));
  EXPECT_THAT(*Addresses("./run/control.sock", {}), ElementsAre("unix:./run/control.sock"));
  EXPECT_THAT(*Addresses("[::1]:7000", {}), ElementsAre("[::1]:7000"));
}

TEST(CandidateEndpointsTest, WhatIsNoAddressIsRefused) {
  for (const std::string text :
       {"", "localhost", "localhost:0", "localhost:99999", ":7000", "h:x"}) {
    EXPECT_THAT(Addresses(text, {}).status(), StatusIs(absl::StatusCode::kInvalidArgument)) << text;
  }
  EXPECT_THAT(Addresses("unix:/" + std::string(108, 'a'), {}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace profd::cli
