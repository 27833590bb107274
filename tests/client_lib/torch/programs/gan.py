"""A generator learns to draw from a distribution that a discriminator tells from its own.

Two optimizers of one class, each with its own work before its step, and no DataLoader: two
Optimizer.step() of one name a step, with nothing but the work to tell them apart. --critics K trains
the discriminator K times a step.
"""

import reproducible

torch = reproducible.torch

NOISE = 8
WIDTH = 32


def network(inputs, outputs):
    nn = torch.nn
    return nn.Sequential(nn.Linear(inputs, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(),
                         nn.Linear(WIDTH, outputs))


def main():
    parser = reproducible.parser(__doc__, steps=20)
    parser.add_argument('--batch', type=int, default=64)
    parser.add_argument('--critics', type=int, default=1, help="the discriminator's steps a step")
    arguments = parser.parse_args()
    reproducible.start(arguments)

    generator = network(NOISE, 2)
    discriminator = network(2, 1)
    of_generator = torch.optim.Adam(generator.parameters(), lr=1e-3)
    of_discriminator = torch.optim.Adam(discriminator.parameters(), lr=1e-3)
    judge = torch.nn.functional.binary_cross_entropy_with_logits
    real, fake = torch.ones(arguments.batch, 1), torch.zeros(arguments.batch, 1)

    for _ in reproducible.steps(arguments):
        for _ in range(arguments.critics):
            drawn = generator(torch.randn(arguments.batch, NOISE)).detach()
            seen = torch.randn(arguments.batch, 2) * 0.5 + 2
            of_discriminator.zero_grad()
            (judge(discriminator(seen), real) + judge(discriminator(drawn), fake)).backward()
            of_discriminator.step()
        drawn = generator(torch.randn(arguments.batch, NOISE))
        of_generator.zero_grad()
        judge(discriminator(drawn), real).backward()
        of_generator.step()
    reproducible.report(*generator.state_dict().values(), *discriminator.state_dict().values())


if __name__ == '__main__':
    main()
