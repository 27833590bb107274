// Which job, pod and container a cgroup names, and which it only seems to.
#include "daemon/ingest/workload.h"

#include <unistd.h>

#include <filesystem>
#include <string>

#include "daemon/base/str_cat.h"
#include "gtest/gtest.h"

namespace profd {
namespace {

const std::string kId(64, 'a');
constexpr char kUid[] = "8c2a0e4e-1111-2222-3333-444455556666";

TEST(WorkloadTest, JobsOfSlurmOfBothVersions) {
  EXPECT_EQ(WorkloadOf("0::/system.slice/slurmstepd.scope/job_88123/step_0/user/task_0").slurm_job,
            "88123");
  EXPECT_EQ(WorkloadOf("0::/system.slice/n1_slurmstepd.scope/job_5/step_0").slurm_job, "5");
  EXPECT_EQ(WorkloadOf("9:cpu,cpuacct:/slurm/uid_1000/job_7/step_0\n8:pids:/x\n").slurm_job, "7");
  EXPECT_EQ(WorkloadOf("9:memory:/slurm_n1/uid_1000/job_7").slurm_job, "7");
  EXPECT_EQ(WorkloadOf("0::/hpc.slice/n1_slurmstepd.scope/job_5/step_0").slurm_job, "5")
      << "a site may choose another slice (CgroupSlice in cgroup.conf)";
}

TEST(WorkloadTest, FoldersThatOnlyLookLikeAJobAreNone) {
  for (const char* cgroup :
       {"0::/user.slice/job_5", "0::/slurm/job_5", "0::/x/uid_1/job_5", "0::/slurmstepd.scope/job_",
        "0::/slurmstepd.scope/job_5x", "0::/slurmstepd.scope/x/job_5", "", "0", "::", "\n\n"}) {
    EXPECT_EQ(WorkloadOf(cgroup).slurm_job, "") << cgroup;
  }
  EXPECT_EQ(WorkloadOf("0::/slurmstepd.scope/job_1/user/slurmstepd.scope/job_2").slurm_job, "1")
      << "what a user makes below its own job does not count";
}

// A user may create any folder in a cgroup that is delegated to it, as user@UID.service is.
TEST(WorkloadTest, FoldersInADelegatedCgroupAreNoEvidence) {
  const std::string uid(kUid);
  for (const std::string& delegated :
       {std::string("/user.slice/user-1000.slice/user@1000.service"),
        std::string("/user.slice/user-1000.slice/user@1000.service/app.slice"),
        std::string("/user.slice"), std::string("/system.slice/jupyter.service"),
        std::string("/docker/") + kId,
        "/kubepods/pod11111111-1111-2222-3333-444455556666/" + kId + "/mine"}) {
    for (const char* prefix : {"0::", "1:name=systemd:", "0::/../../.."}) {
      const std::string before = prefix + delegated;
      EXPECT_EQ(WorkloadOf(before + "/slurmstepd.scope/job_88123").slurm_job, "") << before;
      EXPECT_EQ(WorkloadOf(before + "/system.slice/slurmstepd.scope/job_88123").slurm_job, "");
      EXPECT_EQ(WorkloadOf(before + "/slurm/uid_1000/job_88123").slurm_job, "") << before;
      EXPECT_NE(WorkloadOf(before + "/kubepods/pod" + uid).pod_uid, uid) << before;
      EXPECT_NE(WorkloadOf(before + "/kubepods.slice/kubepods-pod" + uid + ".slice").pod_uid, uid);
      EXPECT_NE(WorkloadOf(before + "/pod" + uid).pod_uid, uid) << before;
    }
  }
}

TEST(WorkloadTest, AFolderOfAnotherUserThanRootIsNoEvidence) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to give a folder to another user";
  std::string name = ::testing::TempDir() + "profd_cgroup_XXXXXX";
  const std::filesystem::path mount = mkdtemp(name.data());
  const std::string job = "/system.slice/slurmstepd.scope/job_7";
  const std::string pod = "/kubepods/pod" + std::string(kUid);
  std::filesystem::create_directories(StrCat(mount.string(), job));
  std::filesystem::create_directories(StrCat(mount.string(), "/systemd", job));
  std::filesystem::create_directories(StrCat(mount.string(), pod));
  const CgroupFolders folders(mount);
  const auto job_of = [&](std::string_view controllers) {
    return WorkloadOf(StrCat("0:", controllers, ":", job, "/step_0"), &folders).slurm_job;
  };
  EXPECT_EQ(job_of(""), "7");
  EXPECT_EQ(job_of("name=systemd"), "7");
  EXPECT_EQ(WorkloadOf("0::" + pod, &folders).pod_uid, kUid);

  ASSERT_EQ(chown(StrCat(mount.string(), job).c_str(), 65534, 65534), 0);
  ASSERT_EQ(chown(StrCat(mount.string(), "/systemd", job).c_str(), 65534, 65534), 0);
  ASSERT_EQ(chown(StrCat(mount.string(), pod).c_str(), 65534, 65534), 0);
  EXPECT_EQ(job_of(""), "");
  EXPECT_EQ(job_of("name=systemd"), "");
  EXPECT_EQ(job_of("pids"), "7") << "not mounted there: the path alone decides";
  EXPECT_EQ(WorkloadOf("0::" + pod, &folders).pod_uid, "");
  std::filesystem::remove_all(mount);
}

TEST(WorkloadTest, PodsAndContainersOfBothDrivers) {
  const Workload systemd = WorkloadOf(
      "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-"
      "pod8c2a0e4e_1111_2222_3333_444455556666.slice/cri-containerd-" +
      kId + ".scope");
  EXPECT_EQ(systemd.pod_uid, kUid);
  EXPECT_EQ(systemd.container_id, kId);
  const Workload cgroupfs =
      WorkloadOf("0::/../../kubepods/besteffort/pod" + std::string(kUid) + "/" + kId);
  EXPECT_EQ(cgroupfs.pod_uid, kUid);
  EXPECT_EQ(cgroupfs.container_id, kId);
  // As a daemon in a container sees its neighbours: relative to its own cgroup.
  EXPECT_EQ(WorkloadOf("0::/../../pod" + std::string(kUid) + "/" + kId).pod_uid, kUid);
  EXPECT_EQ(WorkloadOf("0::/../../../kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-"
                       "pod8c2a0e4e_1111_2222_3333_444455556666.slice/cri-containerd-" +
                       kId + ".scope")
                .pod_uid,
            kUid);
  EXPECT_EQ(WorkloadOf("0::/pod" + std::string(kUid)).pod_uid, "") << "not in the kubelet's folder";
  EXPECT_EQ(WorkloadOf("0::/docker/" + kId).container_id, kId);
  EXPECT_EQ(WorkloadOf("0::/docker/" + kId + "a").container_id, "");
  EXPECT_EQ(WorkloadOf("0::/x/tripod" + std::string(kUid)).pod_uid, "");
  EXPECT_EQ(WorkloadOf("0::/x/pod" + std::string(kUid) + "0").pod_uid, "");
}

TEST(RootContainerTest, TheOutermostContainerOfEachRuntime) {
  const std::string inner(64, 'b');
  for (const std::string& cgroup :
       {"0::/docker/" + kId, "0::/system.slice/docker-" + kId + ".scope",
        "0::/machine.slice/libpod-" + kId + ".scope/container", "0::/default/" + kId,
        "0::/kubepods/besteffort/pod" + std::string(kUid) + "/" + kId,
        "0::/docker/" + kId + "/docker/" + inner, "0::/../" + kId,
        "9:pids:/x\n0::/docker/" + kId}) {
    EXPECT_EQ(RootContainerOf(cgroup), kId) << cgroup;
  }
}

TEST(RootContainerTest, NamesInADelegatedCgroupAreNone) {
  for (const std::string before :
       {"0::/user.slice/user-1000.slice/user@1000.service/",
        "1:name=systemd:/user.slice/user-1000.slice/user@1000.service/app.slice/",
        "0::/user.slice/", "0::/system.slice/jupyter.service/",
        "0::/system.slice/slurmstepd.scope/job_1/", "0::/../../user.slice/"}) {
    EXPECT_EQ(RootContainerOf(before + kId), "") << before;
    EXPECT_EQ(RootContainerOf(before + "libpod-" + kId + ".scope"), "") << before;
    EXPECT_EQ(WorkloadOf(before + kId).container_id, kId) << "it is displayed all the same";
  }
}

TEST(RootContainerTest, AFolderOfAnotherUserThanRootIsNone) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to give a folder to another user";
  std::string name = ::testing::TempDir() + "profd_cgroup_XXXXXX";
  const std::filesystem::path mount = mkdtemp(name.data());
  std::filesystem::create_directories(StrCat(mount.string(), "/lab/", kId));
  const CgroupFolders folders(mount);
  EXPECT_EQ(RootContainerOf("0::/lab/" + kId, &folders), kId);
  ASSERT_EQ(chown(StrCat(mount.string(), "/lab/", kId).c_str(), 65534, 65534), 0);
  EXPECT_EQ(RootContainerOf("0::/lab/" + kId, &folders), "");
  std::filesystem::remove_all(mount);
}

// A user may keep a folder of their own from being looked at.
TEST(RootContainerTest, AFolderThatCannotBeLookedAtIsNone) {
  std::string name = ::testing::TempDir() + "profd_cgroup_XXXXXX";
  const std::filesystem::path mount = mkdtemp(name.data());
  const CgroupFolders folders(mount);
  EXPECT_EQ(RootContainerOf("0::/lab/" + kId, &folders), kId) << "not mounted: the path decides";
  std::filesystem::create_symlink("lab", mount / "lab");  // Leads to itself.
  EXPECT_EQ(RootContainerOf("0::/lab/" + kId, &folders), "");
  std::filesystem::remove_all(mount);
}

TEST(WorkloadTest, ThePodsNamesComeFromTheKubeletsFolders) {
  std::string name = ::testing::TempDir() + "profd_pods_XXXXXX";
  const std::filesystem::path folder = mkdtemp(name.data());
  std::filesystem::create_directory(folder / ("train_rank-0_" + std::string(kUid)));
  std::filesystem::create_directory(folder / ("other_x_" + std::string(35, '1')));
  std::filesystem::create_directory(folder / std::string(kUid));
  Workload workload{.pod_uid = kUid};
  FindPodNames(folder, workload);
  EXPECT_EQ(workload.pod_namespace, "train");
  EXPECT_EQ(workload.pod_name, "rank-0");

  std::filesystem::permissions(folder, std::filesystem::perms(0777));
  Workload untrusted{.pod_uid = kUid};
  FindPodNames(folder, untrusted);
  EXPECT_EQ(untrusted.pod_namespace, "") << "anybody could have made that folder";
  std::filesystem::remove_all(folder);
}

TEST(WorkloadTest, WhoOptsOutSaysSo) {
  EXPECT_TRUE(AsksNotToBeCaptured({{"optout", "1"}}));
  EXPECT_TRUE(AsksNotToBeCaptured({{"optout", "yes"}}));
  EXPECT_FALSE(AsksNotToBeCaptured({{"optout", "0"}}));
  EXPECT_FALSE(AsksNotToBeCaptured({{"optout", ""}}));
  EXPECT_FALSE(AsksNotToBeCaptured({{"rank", "1"}}));
}

}  // namespace
}  // namespace profd
