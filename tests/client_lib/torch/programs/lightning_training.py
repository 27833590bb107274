"""PyTorch Lightning trains a small network.

Automatic optimization: forward and backward run in a closure, inside of Optimizer.step().
--validate interrupts the training by a validation loop every epoch; --optimizers 2 takes turns by
hand, as for a GAN.
"""

import framework_data
import reproducible

torch = reproducible.torch


def make_module(lightning, arguments):
    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.network = framework_data.network()
            self.automatic_optimization = arguments.optimizers == 1

        def loss(self, batch):
            return (self.network(batch['x']) - batch['labels']).square().mean()

        def training_step(self, batch, index):
            loss = self.loss(batch)
            if self.automatic_optimization:
                return loss
            for optimizer in self.optimizers():
                optimizer.zero_grad()
            self.manual_backward(loss)
            for optimizer in self.optimizers():
                optimizer.step()

        def validation_step(self, batch, index):
            self.loss(batch)

        def configure_optimizers(self):
            if self.automatic_optimization:
                return torch.optim.AdamW(self.parameters(), lr=1e-3)
            return [torch.optim.AdamW(self.network[0].parameters(), lr=1e-3),
                    torch.optim.SGD(self.network[2].parameters(), lr=1e-3)]

    return Module()


def main():
    parser = framework_data.parser(__doc__)
    parser.add_argument('--optimizers', type=int, choices=(1, 2), default=1)
    parser.add_argument('--validate', action='store_true')
    arguments = parser.parse_args()
    reproducible.start(arguments)
    try:
        import lightning
    except ImportError:
        reproducible.skip('this Python has no lightning')

    lightning.seed_everything(arguments.seed, verbose=False)
    module = make_module(lightning, arguments)
    trainer = lightning.Trainer(
        accelerator='cpu', max_steps=(arguments.steps or -1) * arguments.optimizers, max_epochs=-1,
        accumulate_grad_batches=arguments.accumulate, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False)
    validation = torch.utils.data.DataLoader(
        framework_data.Rows(), batch_size=arguments.batch) if arguments.validate else None
    trainer.fit(module, framework_data.loader(arguments), validation)
    reproducible.report_model(module.network)


if __name__ == '__main__':
    main()
