"""A small convolutional network learns to classify pictures of noise.

Convolutions, batch normalisation (its running statistics are buffers), pooling, and a momentum
for each parameter as the optimizer's state. --optimizers 2 trains the features and the classifier
with an optimizer each: two Optimizer.step() a step.
"""

import reproducible

torch = reproducible.torch
CLASSES = 10


def model():
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 8 * 8, CLASSES))


def main():
    parser = reproducible.parser(__doc__, steps=20)
    parser.add_argument('--batch', type=int, default=16)
    parser.add_argument('--optimizers', type=int, choices=(1, 2), default=1)
    arguments = parser.parse_args()
    reproducible.start(arguments)

    network = model()
    if arguments.optimizers == 1:
        groups = [network.parameters()]
    else:
        groups = [network[:-1].parameters(), network[-1].parameters()]
    optimizers = [torch.optim.SGD(group, lr=0.05, momentum=0.9) for group in groups]
    for _ in reproducible.steps(arguments):
        pictures = torch.randn(arguments.batch, 3, 32, 32)
        labels = torch.randint(CLASSES, (arguments.batch,))
        loss = torch.nn.functional.cross_entropy(network(pictures), labels)
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
    reproducible.report_model(network)


if __name__ == '__main__':
    main()
