"""Mixed precision by torch.amp alone: a GradScaler leaves out steps whose gradients overflow.

--overflow-every N makes every Nth batch overflow: optimizer.step() is not called for it.
"""

import framework_data
import reproducible

torch = reproducible.torch


def main():
    parser = framework_data.parser(__doc__)
    parser.add_argument('--overflow-every', type=int, default=4)
    arguments = parser.parse_args()
    reproducible.start(arguments)
    if not hasattr(getattr(torch, 'amp', None), 'GradScaler'):
        reproducible.skip('torch %s has no GradScaler for the CPU' % torch.__version__)

    network = framework_data.network()
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler('cpu', init_scale=1024.0)
    batches = framework_data.loader(arguments)
    batch_number = 0
    step = 0
    while arguments.steps == 0 or step < arguments.steps:
        for batch in batches:
            batch_number += 1
            optimizer.zero_grad()
            with torch.autocast('cpu', dtype=torch.bfloat16):
                loss = (network(batch['x']) - batch['labels']).square().mean()
            overflows = batch_number % arguments.overflow_every == 0
            scaler.scale(loss * (float('inf') if overflows else 1)).backward()
            scaler.step(optimizer)
            scaler.update()
            step += not overflows
            if step == arguments.steps:
                break
    reproducible.report_model(network)


if __name__ == '__main__':
    main()
