"""A loop of one's own with Accelerate, whose accumulate() decides when the optimizer steps."""

import framework_data
import reproducible

torch = reproducible.torch


def main():
    arguments = framework_data.parser(__doc__).parse_args()
    reproducible.start(arguments)
    try:
        import accelerate
    except ImportError:
        reproducible.skip('this Python has no accelerate')

    accelerator = accelerate.Accelerator(cpu=True,
                                         gradient_accumulation_steps=arguments.accumulate)
    accelerate.utils.set_seed(arguments.seed)
    network = framework_data.network()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer)
    network, optimizer, loader, schedule = accelerator.prepare(
        network, optimizer, framework_data.loader(arguments), schedule)
    step = 0
    while arguments.steps == 0 or step < arguments.steps:
        for batch in loader:
            with accelerator.accumulate(network):
                loss = (network(batch['x']) - batch['labels']).square().mean()
                accelerator.backward(loss)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            step += accelerator.sync_gradients
            if step == arguments.steps:
                break
    reproducible.report_model(accelerator.unwrap_model(network))


if __name__ == '__main__':
    main()
