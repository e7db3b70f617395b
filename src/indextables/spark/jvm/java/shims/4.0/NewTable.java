package indextables.spark;

import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.expressions.Transform;

/** The description of a table that a statement creates. */
final class NewTable {
    private final Column[] columns;
    private final Transform[] partitions;
    private final Map properties;

    NewTable(Column[] columns, Transform[] partitions, Map properties) {
        this.columns = columns;
        this.partitions = partitions;
        this.properties = properties;
    }

    Column[] columns() {
        return columns;
    }

    Transform[] partitions() {
        return partitions;
    }

    Map properties() {
        return properties;
    }

    Table createdIn(TableCatalog catalog, Identifier name)
        throws TableAlreadyExistsException, NoSuchNamespaceException {
        return catalog.createTable(name, columns, partitions, properties);
    }
}
