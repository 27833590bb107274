"""A matrix product plus a bias, over and over.

With matrices of 64 a call is mostly the way to the arithmetic, with 4096 it is the arithmetic:
the two ends of what a profile of operators has to tell apart. Without --train there is no
optimizer and no DataLoader, hence nothing that would be a step.
"""

import reproducible

torch = reproducible.torch


def main():
    parser = reproducible.parser(__doc__, steps=200)
    parser.add_argument('--size', type=int, default=64, help='rows and columns of each matrix')
    parser.add_argument('--train', action='store_true', help='fit weight and bias with SGD')
    arguments = parser.parse_args()
    reproducible.start(arguments)

    size = arguments.size
    x = torch.randn(size, size)
    weight = torch.randn(size, size) / size ** 0.5
    bias = torch.randn(size)
    if not arguments.train:
        with torch.no_grad():
            for _ in reproducible.steps(arguments):
                # Bounded, so that any number of products stays finite.
                x = torch.add(torch.matmul(x, weight), bias).tanh_()
        reproducible.report(x)
        return

    target = torch.randn(size, size)
    weight.requires_grad_()
    bias.requires_grad_()
    optimizer = torch.optim.SGD([weight, bias], lr=0.01)
    for _ in reproducible.steps(arguments):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(torch.add(torch.matmul(x, weight), bias), target)
        loss.backward()
        optimizer.step()
    reproducible.report(weight, bias)


if __name__ == '__main__':
    main()
