"""Checks Kubernetes manifests field by field, without a cluster.

SCHEMA knows the fields that our manifests use, of the kinds they are of, and nothing else: a field
that is misspelt, stands in the wrong place or has a value of another type is an offence. Who uses
a new field adds it here, with its type from the API's reference.
"""

import yaml


class Strict(yaml.SafeLoader):
    """Refuses a key that comes twice, which YAML's loaders let the later one win."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = sorted({str(key) for key in keys if keys.count(key) > 1})
        if twice:
            raise yaml.constructor.ConstructorError(None, None, f'twice: {", ".join(twice)}',
                                                    node.start_mark)
        return super().construct_mapping(node, deep)


def load(path):
    with open(path, encoding='utf-8') as file:
        return [document for document in yaml.load_all(file, Loader=Strict) if document]


class Map:
    """A map from names to values of one type."""

    def __init__(self, value):
        self.value = value


class Required:
    def __init__(self, value):
        self.value = value


class OneOf:
    def __init__(self, *values):
        self.values = values


INT_OR_STRING = (int, str)
METADATA = {'name': Required(str), 'namespace': str, 'labels': Map(str), 'annotations': Map(str)}
SELECTOR = {'matchLabels': Map(str)}
PROBE = {'httpGet': {'path': str, 'port': Required(INT_OR_STRING)}, 'exec': {'command': [str]},
         'periodSeconds': int,
         'timeoutSeconds': int, 'failureThreshold': int, 'initialDelaySeconds': int}
RESOURCES = {'requests': Map(str), 'limits': Map(str)}
CONTAINER = {
    'name': Required(str), 'image': Required(str), 'command': [str], 'args': [str],
    'env': [{'name': Required(str), 'value': str,
             'valueFrom': {'fieldRef': {'fieldPath': Required(str)}}}],
    'ports': [{'name': str, 'containerPort': Required(int), 'protocol': OneOf('TCP', 'UDP')}],
    'startupProbe': PROBE, 'livenessProbe': PROBE, 'readinessProbe': PROBE,
    'resources': RESOURCES,
    'securityContext': {'runAsUser': int, 'allowPrivilegeEscalation': bool,
                        'readOnlyRootFilesystem': bool,
                        'capabilities': {'drop': [str], 'add': [str]}},
    'volumeMounts': [{'name': Required(str), 'mountPath': Required(str), 'readOnly': bool}],
}
KEY_TO_PATH = [{'key': Required(str), 'path': Required(str)}]
VOLUME = {
    'name': Required(str),
    'hostPath': {'path': Required(str), 'type': OneOf('Directory', 'DirectoryOrCreate')},
    'emptyDir': {'sizeLimit': str},
    'projected': {'defaultMode': int,
                  'sources': [{'configMap': {'name': Required(str), 'items': KEY_TO_PATH},
                               'secret': {'name': Required(str), 'items': KEY_TO_PATH}}]},
}
POD = {
    'securityContext': {'fsGroup': int,
                        'seccompProfile': {'type': OneOf('RuntimeDefault', 'Localhost')}},
    'serviceAccountName': str, 'automountServiceAccountToken': bool, 'hostPID': bool,
    'priorityClassName': str, 'terminationGracePeriodSeconds': int, 'nodeSelector': Map(str),
    'restartPolicy': OneOf('Always', 'OnFailure', 'Never'),
    'tolerations': [{'key': str, 'operator': OneOf('Exists', 'Equal'), 'effect': str}],
    'initContainers': [CONTAINER], 'containers': Required([CONTAINER]), 'volumes': [VOLUME],
}
PEERS = [{'namespaceSelector': SELECTOR, 'podSelector': SELECTOR}]
PORTS = [{'protocol': OneOf('TCP', 'UDP'), 'port': Required(INT_OR_STRING)}]
ISSUER_REF = {'name': Required(str), 'kind': OneOf('Issuer', 'ClusterIssuer')}

SCHEMA = {
    ('v1', 'Namespace'): {},
    ('v1', 'ServiceAccount'): {'automountServiceAccountToken': bool},
    ('v1', 'ConfigMap'): {'data': Map(str)},
    ('v1', 'Pod'): {'spec': Required(POD)},
    ('v1', 'Service'): {'spec': Required({
        'clusterIP': str, 'publishNotReadyAddresses': bool, 'selector': Map(str),
        'ports': [{'name': str, 'port': Required(int), 'targetPort': INT_OR_STRING}]})},
    ('apps/v1', 'DaemonSet'): {'spec': Required({
        'selector': Required(SELECTOR),
        'updateStrategy': {'type': str, 'rollingUpdate': {'maxUnavailable': INT_OR_STRING}},
        'template': Required({'metadata': {'labels': Map(str), 'annotations': Map(str)},
                              'spec': Required(POD)})})},
    ('networking.k8s.io/v1', 'NetworkPolicy'): {'spec': Required({
        'podSelector': Required(SELECTOR), 'policyTypes': [OneOf('Ingress', 'Egress')],
        'ingress': [{'from': PEERS, 'ports': PORTS}], 'egress': [{'to': PEERS, 'ports': PORTS}]})},
    ('cert-manager.io/v1', 'Issuer'): {'spec': Required({
        'selfSigned': {}, 'ca': {'secretName': Required(str)}})},
    ('cert-manager.io/v1', 'Certificate'): {'spec': Required({
        'isCA': bool, 'commonName': str, 'secretName': Required(str), 'duration': str,
        'renewBefore': str, 'dnsNames': [str], 'usages': [str],
        'privateKey': {'algorithm': OneOf('ECDSA', 'RSA', 'Ed25519'), 'size': int,
                       'rotationPolicy': OneOf('Always', 'Never')},
        'issuerRef': Required(ISSUER_REF)})},
    ('kustomize.config.k8s.io/v1beta1', 'Kustomization'): {
        'namespace': str, 'resources': [str],
        'labels': [{'pairs': Map(str), 'includeTemplates': bool, 'includeSelectors': bool}],
        'images': [{'name': Required(str), 'newName': str, 'newTag': str}]},
}


def check(value, schema, where, offences):
    if isinstance(schema, Required):
        schema = schema.value
    if isinstance(schema, Map):
        if not isinstance(value, dict):
            offences.append(f'{where}: not a map')
            return
        for key, item in value.items():
            if not isinstance(key, str):
                offences.append(f'{where}: key {key!r} is not text')
            check(item, schema.value, f'{where}.{key}', offences)
    elif isinstance(schema, OneOf):
        if value not in schema.values:
            offences.append(f'{where}: {value!r} is none of {schema.values}')
    elif isinstance(schema, dict):
        check_object(value, schema, where, offences)
    elif isinstance(schema, list):
        if not isinstance(value, list):
            offences.append(f'{where}: not a list')
            return
        for index, item in enumerate(value):
            check(item, schema[0], f'{where}[{index}]', offences)
    else:
        # A bool is an int to Python.
        wrong = isinstance(value, bool) and schema is not bool
        if wrong or not isinstance(value, schema):
            offences.append(f'{where}: {value!r} has the wrong type')


def check_object(value, schema, where, offences):
    if not isinstance(value, dict):
        offences.append(f'{where}: not an object')
        return
    for key in sorted(set(value) - set(schema), key=str):
        offences.append(f'{where}: unknown field {key}')
    for key, item in schema.items():
        if key in value:
            check(value[key], item, f'{where}.{key}', offences)
        elif isinstance(item, Required):
            offences.append(f'{where}: {key} is missing')


def offences_of(document, where):
    """What is wrong with one document, as text."""
    offences = []
    kind = (document.get('apiVersion'), document.get('kind'))
    if kind not in SCHEMA:
        return [f'{where}: {kind} is not known']
    schema = {'apiVersion': Required(str), 'kind': Required(str), **SCHEMA[kind]}
    if kind[1] != 'Kustomization':
        schema['metadata'] = Required(METADATA)
    check(document, schema, where, offences)
    return offences
