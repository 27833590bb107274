"""A small transformer learns to continue sequences that a DataLoader's workers make.

Attention, dropout, layer normalisation, gradient clipping and AdamW. --accumulate K takes K
batches for each step of the optimizer; --inference only predicts: then nothing but the DataLoader
tells where a step ends.
"""

import reproducible

torch = reproducible.torch

TOKENS = 64
LENGTH = 32
WIDTH = 64
# Of an epoch; the loader starts its workers again for each.
SEQUENCES = 512


class Sequences:
    """Counts up by a stride that the index gives: a map-style data set."""

    def __len__(self):
        return SEQUENCES

    def __getitem__(self, index):
        stride = 1 + index % 7
        return torch.arange(index, index + stride * (LENGTH + 1), stride) % TOKENS


def model():
    nn = torch.nn

    class Transformer(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(TOKENS, WIDTH)
            self.position = nn.Parameter(torch.randn(LENGTH, WIDTH) * 0.02)
            layer = nn.TransformerEncoderLayer(WIDTH, nhead=4, dim_feedforward=2 * WIDTH,
                                               dropout=0.1, batch_first=True)
            self.layers = nn.TransformerEncoder(layer, num_layers=2)
            self.head = nn.Linear(WIDTH, TOKENS)
            mask = torch.full((LENGTH, LENGTH), float('-inf')).triu(1)
            self.register_buffer('mask', mask)

        def forward(self, tokens):
            hidden = self.embedding(tokens) + self.position
            return self.head(self.layers(hidden, mask=self.mask))

    return Transformer()


def batches(arguments):
    """Batch after batch, epoch after epoch."""
    shuffle = torch.Generator()
    shuffle.manual_seed(arguments.seed)
    loader = torch.utils.data.DataLoader(
        Sequences(), batch_size=arguments.batch, shuffle=True, drop_last=True,
        num_workers=arguments.workers, generator=shuffle)
    while True:
        yield from loader


def train(arguments, network, data):
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    for _ in reproducible.steps(arguments):
        optimizer.zero_grad()
        for _ in range(arguments.accumulate):
            sequences = next(data)
            predicted = network(sequences[:, :-1])
            loss = torch.nn.functional.cross_entropy(predicted.flatten(0, 1),
                                                     sequences[:, 1:].flatten())
            (loss / arguments.accumulate).backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
    return network.state_dict().values()


def infer(arguments, network, data):
    network.eval()
    right = torch.zeros((), dtype=torch.int64)
    with torch.no_grad():
        for _ in reproducible.steps(arguments):
            sequences = next(data)
            right += (network(sequences[:, :-1]).argmax(-1) == sequences[:, 1:]).sum()
    return [right]


def main():
    parser = reproducible.parser(__doc__, steps=20)
    parser.add_argument('--batch', type=int, default=8)
    parser.add_argument('--workers', type=int, default=2, help="the DataLoader's processes")
    parser.add_argument('--accumulate', type=int, default=1, help='batches for each step')
    parser.add_argument('--inference', action='store_true', help='do not train')
    arguments = parser.parse_args()
    reproducible.start(arguments)

    network = model()
    run = infer if arguments.inference else train
    reproducible.report(*run(arguments, network, batches(arguments)))


if __name__ == '__main__':
    main()
