"""The manifests of deploy/kubernetes are what an API server would take, and fit together."""

import copy
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

try:
    import yaml  # noqa: F401
except ImportError:
    print('SKIP: python3-yaml is not installed')
    sys.exit(77)

import strict_manifests

ROOT = pathlib.Path(os.environ.get('PROFD_SOURCE_DIR', pathlib.Path(__file__).parents[2]))
FOLDER = ROOT / 'deploy/kubernetes'


def of_kind(documents, kind, name=None):
    found = [d for d in documents if d['kind'] == kind and name in (None, d['metadata']['name'])]
    assert len(found) == 1, f'{len(found)} of {kind} {name or ""}'
    return found[0]


class ManifestTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.files = {path: strict_manifests.load(path) for path in sorted(FOLDER.rglob('*.yaml'))}
        cls.base = [document for path, documents in cls.files.items()
                    if path.parent.name == 'base' and path.name != 'kustomization.yaml'
                    for document in documents]
        cls.daemon_set = of_kind(cls.base, 'DaemonSet')
        cls.pod = cls.daemon_set['spec']['template']['spec']

    def test_every_field_is_known_and_of_its_type(self):
        offences = [offence for path, documents in self.files.items() for document in documents
                    for offence in strict_manifests.offences_of(document, path.name)]
        self.assertFalse(offences, '\n' + '\n'.join(offences))

    def test_the_checker_finds_what_is_wrong(self):
        def broken(change):
            document = copy.deepcopy(self.daemon_set)
            change(document['spec']['template']['spec'])
            return '\n'.join(strict_manifests.offences_of(document, 'x'))
        self.assertIn('unknown field hostPid', broken(lambda pod: pod.update(hostPid=True)))
        self.assertIn('wrong type', broken(lambda pod: pod.update(hostPID='yes')))
        self.assertIn('containers is missing', broken(lambda pod: pod.pop('containers')))
        self.assertIn('wrong type', broken(
            lambda pod: pod['containers'][0]['ports'][0].update(containerPort='7411')))
        self.assertIn('unknown field subPath', broken(
            lambda pod: pod['containers'][0]['volumeMounts'][0].update(subPath='x')))

    def test_kustomization_names_every_file_and_no_other(self):
        for folder in ('base', 'example'):
            [kustomization] = self.files[FOLDER / folder / 'kustomization.yaml']
            there = sorted(path.name for path in self.files
                           if path.parent.name == folder and path.name != 'kustomization.yaml')
            self.assertEqual(sorted(kustomization['resources']), there)

    def test_selectors_find_the_pods(self):
        labels = self.daemon_set['spec']['template']['metadata']['labels']
        selectors = [self.daemon_set['spec']['selector']['matchLabels'],
                     of_kind(self.base, 'Service')['spec']['selector'],
                     of_kind(self.base, 'NetworkPolicy')['spec']['podSelector']['matchLabels']]
        for selector in selectors:
            self.assertLessEqual(selector.items(), labels.items())

    def test_mounts_ports_and_secrets_are_there(self):
        volumes = {volume['name'] for volume in self.pod['volumes']}
        for container in self.pod['initContainers'] + self.pod['containers']:
            for mount in container['volumeMounts']:
                self.assertIn(mount['name'], volumes)
        [container] = self.pod['containers']
        ports = {port['name']: port['containerPort'] for port in container['ports']}
        for port in of_kind(self.base, 'Service')['spec']['ports']:
            self.assertEqual(ports[port['targetPort']], port['port'])
        self.assertIn(container['readinessProbe']['httpGet']['port'], ports)
        # What restarts profd must not depend on a port that others can use up.
        for probe in ('startupProbe', 'livenessProbe'):
            self.assertEqual(container[probe]['exec']['command'], ['/usr/bin/profctl', 'node'])
        allowed = {port['port'] for rule in of_kind(self.base, 'NetworkPolicy')['spec']['ingress']
                   for port in rule['ports']}
        self.assertEqual(allowed, set(ports.values()))
        [config] = [v for v in self.pod['volumes'] if v['name'] == 'config']
        [config_map, secret] = config['projected']['sources']
        of_kind(self.base, 'ConfigMap', config_map['configMap']['name'])
        secrets = {d['spec']['secretName'] for d in self.base if d['kind'] == 'Certificate'}
        self.assertIn(secret['secret']['name'], secrets)
        of_kind(self.base, 'ServiceAccount', self.pod['serviceAccountName'])

    def test_issuers_are_there_and_their_authority_is_made(self):
        issuers = {d['metadata']['name']: d['spec'] for d in self.base if d['kind'] == 'Issuer'}
        made = {d['spec']['secretName']: d['spec'] for d in self.base
                if d['kind'] == 'Certificate'}
        for spec in made.values():
            self.assertIn(spec['issuerRef']['name'], issuers)
        for spec in issuers.values():
            if 'ca' in spec:
                self.assertTrue(made[spec['ca']['secretName']]['isCA'])

    def test_the_daemons_settings_exist_and_agree_with_the_pod(self):
        text = of_kind(self.base, 'ConfigMap')['data']['profd.conf']
        settings = dict(re.split(r' *= *', line, 1) for line in text.splitlines() if line.strip())
        known = set(re.findall(r'^# ([a-z-]+) = ', (ROOT / 'deploy/profd.conf').read_text(),
                               re.MULTILINE))
        self.assertLessEqual(set(settings), known)
        [container] = self.pod['containers']
        ports = {port['name']: str(port['containerPort']) for port in container['ports']}
        self.assertEqual(settings['listen'].rsplit(':', 1)[1], ports['grpc'])
        self.assertEqual(settings['metrics-listen'].rsplit(':', 1)[1], ports['metrics'])
        mounts = {mount['name']: mount['mountPath'] for mount in container['volumeMounts']}
        self.assertEqual((settings['socket-dir'], settings['data-dir']),
                         (mounts['run'], mounts['data']))
        [config] = [v for v in self.pod['volumes'] if v['name'] == 'config']
        paths = {f"{mounts['config']}/{item['path']}"
                 for item in config['projected']['sources'][1]['secret']['items']}
        self.assertEqual({settings[f'tls-{part}'] for part in ('cert', 'key', 'ca')}, paths)

    def test_a_training_pod_has_two_mounts_that_it_cannot_write_and_two_variables(self):
        [pod] = self.files[FOLDER / 'example/training-pod.yaml']
        [container] = pod['spec']['containers']
        paths = {volume['name']: volume['hostPath'] for volume in pod['spec']['volumes']}
        mounts = {}
        for mount in container['volumeMounts']:
            self.assertTrue(mount['readOnly'])
            mounts[mount['mountPath']] = paths[mount['name']]['path']
        # The socket and the code that other pods load are in separate folders.
        self.assertEqual(mounts, {'/run/profd/agent': '/run/profd/agent',
                                  '/run/profd/client': '/run/profd/client'})
        self.assertEqual(
            {entry['name']: entry['value'] for entry in container['env']},
            {'PYTHONPATH': '/run/profd/client/current/profd/_inject',
             'CUDA_INJECTION64_PATH': '/run/profd/client/current/profd/libprofd_client.so'})

    def test_folders_of_the_node_are_made_and_system_calls_are_filtered(self):
        [training_pod] = self.files[FOLDER / 'example/training-pod.yaml']
        for pod in (self.pod, training_pod['spec']):
            self.assertEqual(pod['securityContext']['seccompProfile'], {'type': 'RuntimeDefault'})
            for volume in pod['volumes']:
                if 'hostPath' in volume:
                    self.assertEqual(volume['hostPath']['type'], 'DirectoryOrCreate', volume)

    def test_the_client_is_laid_where_training_pods_find_it(self):
        [lay] = [c for c in self.pod['initContainers'] if c['name'] == 'lay-agent']
        self.assertEqual([mount['mountPath'] for mount in lay['volumeMounts']],
                         ['/run/profd/client'])
        self.assertEqual(lay['command'][1], '/run/profd/client')

    def test_the_daemon_has_no_right_that_it_does_not_need(self):
        self.assertFalse(self.pod['automountServiceAccountToken'])
        for container in self.pod['initContainers'] + self.pod['containers']:
            context = container['securityContext']
            self.assertFalse(context['allowPrivilegeEscalation'])
            self.assertTrue(context['readOnlyRootFilesystem'])
            self.assertEqual(context['capabilities']['drop'], ['ALL'])
            self.assertIn('memory', container['resources']['limits'])
        added = {container['name']: set(container['securityContext']['capabilities'].get('add', []))
                 for container in self.pod['initContainers'] + self.pod['containers']}
        self.assertEqual(added, {'lay-agent': set(), 'prepare': {'CHOWN'},
                                 'profd': {'DAC_READ_SEARCH', 'SYS_PTRACE', 'SETGID', 'SETUID'}})

    def test_the_images_user_is_the_group_that_may_read_the_key(self):
        text = (ROOT / 'deploy/Containerfile').read_text()
        group = str(self.pod['securityContext']['fsGroup'])
        self.assertIn(f'groupadd --system --gid {group} profd', text)
        self.assertIn(f'--uid {group} --gid profd', text)
        [config] = [v for v in self.pod['volumes'] if v['name'] == 'config']
        self.assertEqual(config['projected']['defaultMode'], 0o440)


@unittest.skipUnless(shutil.which('kubectl'), 'kubectl is not installed')
class KustomizeTest(unittest.TestCase):

    def render(self, folder):
        done = subprocess.run(['kubectl', 'kustomize', FOLDER / folder], capture_output=True,
                              check=False, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return list(yaml.load_all(done.stdout, Loader=strict_manifests.Strict))

    def test_what_it_makes_is_as_strict_and_in_the_namespace(self):
        documents = self.render('base')
        offences = [offence for document in documents
                    for offence in strict_manifests.offences_of(document, document['kind'])]
        self.assertFalse(offences, '\n' + '\n'.join(offences))
        for document in documents:
            if document['kind'] != 'Namespace':
                self.assertEqual(document['metadata']['namespace'], 'profd')
        pod = of_kind(documents, 'DaemonSet')['spec']['template']
        self.assertEqual(pod['metadata']['labels'], {'app.kubernetes.io/component': 'node',
                                                     'app.kubernetes.io/name': 'profd'})
        for container in pod['spec']['initContainers'] + pod['spec']['containers']:
            self.assertEqual(container['image'], 'registry.example.com/profd:0.1.0')

    def test_the_example_is_rendered(self):
        self.assertEqual([d['kind'] for d in self.render('example')], ['Pod'])


if __name__ == '__main__':
    unittest.main(verbosity=2)
